/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"
#include "base/buf.h"

#include <string.h>

/* Words of text, wrapped; lines after the first are indented. `column` is where the first line starts. */
static void wrap(FILE *f, const char *text, size_t column, size_t indent, size_t width)
{
	size_t at = column;
	bool first = true;

	while (*text) {
		size_t n = strcspn(text, " \n");

		if (!first && at + 1 + n > width) {
			fprintf(f, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!first) {
			fputc(' ', f);
			at++;
		}
		fwrite(text, 1, n, f);
		at += n;
		text += n;
		first = false;
		if (text[0] == '\n' && text[1] == '\n') {
			fprintf(f, "\n\n%*s", (int)indent, "");
			at = indent;
			first = true;
		}
		text += strspn(text, " \n");
	}
	fputc('\n', f);
}

static void entry(FILE *f, const char *left, const char *text, size_t left_width, size_t width)
{
	size_t n = strlen(left), indent = left_width + 4;

	fprintf(f, "  %s", left);
	if (n > left_width) {
		fprintf(f, "\n%*s", (int)indent, "");
	} else {
		fprintf(f, "%*s", (int)(left_width - n + 2), "");
	}
	wrap(f, text, indent, indent, width);
}

static void option_left(const struct opt *o, char *dst, size_t size)
{
	char letter[5] = "    ";

	if (o->letter)
		snprintf(letter, sizeof letter, "-%c, ", o->letter);
	snprintf(dst, size, "%s--%s%s%s", letter, o->name, o->meta ? " " : "", o->meta ? o->meta : "");
}

static void option_text(const struct opt *o, struct buf *b)
{
	buf_puts(b, o->help);
	if (o->required)
		buf_puts(b, " (required)");
	if (o->type == OPT_LIST)
		buf_puts(b, " (may be repeated)");
	for (size_t i = 0; o->choices && o->choices[i]; i++)
		buf_printf(b, "%s%s", i ? ", " : ": ", o->choices[i]);
	if (o->def)
		buf_printf(b, " [default: %s]", o->def);
}

static void options(FILE *f, const char *title, const struct opt *o, size_t n, size_t width)
{
	size_t left_width = 0;
	char left[80];

	if (!n)
		return;
	for (size_t i = 0; i < n; i++) {
		option_left(&o[i], left, sizeof left);
		if (strlen(left) > left_width && strlen(left) <= 30)
			left_width = strlen(left);
	}
	fprintf(f, "\n%s:\n", title);
	for (size_t i = 0; i < n; i++) {
		struct buf text _buf_ = BUF_INIT;

		if (o[i].hidden)
			continue;
		option_left(&o[i], left, sizeof left);
		option_text(&o[i], &text);
		entry(f, left, (const char *)text.data, left_width, width);
	}
}

static void subcommands(FILE *f, const struct command *c, size_t width)
{
	size_t left_width = 0;

	for (size_t i = 0; c->sub[i]; i++)
		if (!c->sub[i]->hidden && strlen(c->sub[i]->name) > left_width)
			left_width = strlen(c->sub[i]->name);
	fputs("\nCommands:\n", f);
	for (size_t i = 0; c->sub[i]; i++)
		if (!c->sub[i]->hidden)
			entry(f, c->sub[i]->name, c->sub[i]->summary, left_width, width);
}

static void usage(FILE *f, const struct command *c, const char *path)
{
	fprintf(f, "\nUsage: %s", path);
	if (c->sub)
		fputs(" COMMAND", f);
	if (c->n_options || c->sub)
		fputs(" [OPTIONS]", f);
	for (size_t i = 0; i < c->n_options; i++)
		if (c->options[i].required)
			fprintf(f, " --%s %s", c->options[i].name, c->options[i].meta);
	fprintf(f, "%s%s\n", c->operands ? " " : "", c->operands ? c->operands : "");
}

void help_print(FILE *f, const struct parsed *p, size_t width)
{
	const struct command *c = p->path[p->depth - 1];
	char path[128];

	args_path(p, path, sizeof path);
	wrap(f, c->summary, 0, 0, width);
	usage(f, c, path);
	if (c->about) {
		fputc('\n', f);
		wrap(f, c->about, 0, 0, width);
	}
	if (c->sub)
		subcommands(f, c, width);
	options(f, "Options", c->options, c->n_options, width);
	options(f, "Global options", global_options, n_global_options, width);
	if (c->examples)
		fputs("\nExamples:\n", f);
	for (const struct example *e = c->examples; e && e->line; e++) {
		if (e->what)
			fprintf(f, "  # %s\n", e->what);
		fprintf(f, "  %s\n", e->line);
	}
	if (c->sub)
		fprintf(f, "\n'%s COMMAND --help' tells more of each.\n", path);
}
