/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct opt global_options[] = {
	{ "connection", 0, OPT_STRING, AT(struct global_args, connection), "URL",
	  "the daemon's socket, e.g. unix:///run/edera/daemon.socket (also: PROTECT_CONNECTION)", .def = "the first that exists of the standard ones" },
	{ "help", 'h', OPT_FLAG, AT(struct global_args, help), NULL, "print this help" },
	{ "version", 0, OPT_FLAG, AT(struct global_args, version), NULL, "print the version" },
};
const size_t n_global_options = ARRAY_SIZE(global_options);

void strings_add(struct strings *s, const char *v)
{
	s->v = need(reallocarray(s->v, s->n + 2, sizeof *s->v));
	s->v[s->n++] = v;
	s->v[s->n] = NULL;
}

void strings_free(struct strings *s)
{
	free(s->v);
	*s = (struct strings){ 0 };
}

void args_path(const struct parsed *p, char *dst, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < p->depth && n < size; i++)
		n += (size_t)snprintf(dst + n, size - n, "%s%s", i ? " " : "", p->path[i]->name);
}

const struct command *args_find_sub(const struct command *c, const char *name)
{
	for (size_t i = 0; c->sub && c->sub[i]; i++)
		if (!strcmp(c->sub[i]->name, name))
			return c->sub[i];
	return NULL;
}

static const struct opt *find(const struct opt *o, size_t n, const char *name, size_t len, char letter)
{
	for (size_t i = 0; i < n; i++) {
		if (letter ? o[i].letter == letter : strlen(o[i].name) == len && !memcmp(o[i].name, name, len))
			return &o[i];
	}
	for (size_t i = 0; i < n; i++) {
		if (letter ? o[i].alias_letter == letter : o[i].alias && strlen(o[i].alias) == len && !memcmp(o[i].alias, name, len))
			return &o[i];
	}
	return NULL;
}

const struct opt *args_find_long(const struct command *c, const char *name, size_t len)
{
	const struct opt *o = find(c->options, c->n_options, name, len, 0);

	return o ? o : find(global_options, n_global_options, name, len, 0);
}

const struct opt *args_find_letter(const struct command *c, char letter)
{
	const struct opt *o = find(c->options, c->n_options, NULL, 0, letter);

	return o ? o : find(global_options, n_global_options, NULL, 0, letter);
}

/* What is being parsed: where it stands in argv, and in which command. */
struct parser {
	struct parsed *out;
	const struct command *command;
	const char *const *argv;
	int argc, next;
	struct edera_error *err;
};

static bool is_global(const struct opt *o)
{
	return o >= global_options && o < global_options + n_global_options;
}

static void *member(struct parser *p, const struct opt *o)
{
	return (char *)(is_global(o) ? (void *)&p->out->global : p->out->args) + o->offset;
}

static int check_choice(struct parser *p, const struct opt *o, const char *value)
{
	char list[256] = "";
	size_t n = 0;

	for (size_t i = 0; o->choices[i]; i++) {
		if (!strcmp(o->choices[i], value))
			return 0;
		if (n < sizeof list)
			n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", o->choices[i]);
	}
	return err_set(p->err, -EINVAL, "'%s' is not a value of --%s, which takes one of: %s", value, o->name, list);
}

static int store(struct parser *p, const struct opt *o, const char *value)
{
	void *m = member(p, o);
	uint64_t number, limit;
	int r;

	if (o->choices) {
		r = check_choice(p, o, value);
		if (r)
			return r;
	}
	switch (o->type) {
	case OPT_FLAG:
		*(bool *)m = true;
		return 0;
	case OPT_STRING:
		*(const char **)m = value;
		return 0;
	case OPT_LIST:
		strings_add(m, value);
		return 0;
	case OPT_U32:
	case OPT_U64:
		limit = o->type == OPT_U32 ? UINT32_MAX : UINT64_MAX;
		r = text_parse_u64(value, 0, limit, &number);
		if (r == -ERANGE)
			return err_set(p->err, -EINVAL, "--%s takes a whole number up to %" PRIu64 ", not '%s'", o->name, limit, value);
		if (r)
			return err_set(p->err, -EINVAL, "--%s takes a whole number, not '%s'", o->name, value);
		if (o->type == OPT_U32)
			*(uint32_t *)m = (uint32_t)number;
		else
			*(uint64_t *)m = number;
		return 0;
	}
	return 0;
}

/* Takes the next word as the value of an option that has none attached. */
static int next_value(struct parser *p, const struct opt *o, const char **ret)
{
	const char *v = p->next < p->argc ? p->argv[p->next] : NULL;

	if (!v)
		return err_set(p->err, -EINVAL, "--%s needs a value: --%s %s", o->name, o->name, o->meta);
	if (v[0] == '-' && v[1])
		return err_set(p->err, -EINVAL, "--%s needs a value before '%s' (a value that begins with '-' is written --%s=%s)", o->name, v, o->name, v);
	p->next++;
	*ret = v;
	return 0;
}

static int unknown(struct parser *p, const char *shown, const char *name)
{
	const char *guess = NULL;
	struct suggest s = suggest_init(name);
	char path[128];

	args_path(p->out, path, sizeof path);
	for (size_t i = 0; i < p->command->n_options; i++)
		if (!p->command->options[i].hidden)
			suggest_try(&s, p->command->options[i].name);
	for (size_t i = 0; i < n_global_options; i++)
		suggest_try(&s, global_options[i].name);
	guess = name[0] && name[1] ? s.best : NULL;
	if (guess)
		return err_set(p->err, -EINVAL, "'%s' has no option '%s'; did you mean '--%s'?", path, shown, guess);
	return err_set(p->err, -EINVAL, "'%s' has no option '%s'; '%s --help' lists those it has", path, shown, path);
}

static int long_option(struct parser *p, const char *word)
{
	const char *name = word + 2, *equals = strchr(name, '='), *value = NULL;
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct opt *o = args_find_long(p->command, name, len);
	char shown[64];
	int r;

	if (!o) {
		snprintf(shown, sizeof shown, "--%.*s", len < 60 ? (int)len : 60, name);
		return unknown(p, shown, shown + 2);
	}
	if (o->type == OPT_FLAG) {
		if (equals)
			return err_set(p->err, -EINVAL, "--%s takes no value", o->name);
	} else if (equals) {
		value = equals + 1;
	} else {
		r = next_value(p, o, &value);
		if (r)
			return r;
	}
	return store(p, o, value);
}

/* -ta, -C4, -C 4, -C=4 */
static int short_options(struct parser *p, const char *word)
{
	for (const char *c = word + 1; *c; c++) {
		const struct opt *o = args_find_letter(p->command, *c);
		char shown[3] = { '-', *c, 0 };
		const char *value = NULL;
		int r;

		if (!o)
			return unknown(p, (unsigned char)*c < 0x80 ? shown : word, shown + 1);
		if (o->type == OPT_FLAG) {
			store(p, o, NULL);
			continue;
		}
		if (c[1]) {
			value = c[1] == '=' ? c + 2 : c + 1;
		} else {
			r = next_value(p, o, &value);
			if (r)
				return r;
		}
		return store(p, o, value);
	}
	return 0;
}

static int enter(struct parser *p, const struct command *c)
{
	if (p->out->depth == ARGS_DEPTH)
		return err_set(p->err, -EINVAL, "the command is nested too deeply");
	p->command = p->out->path[p->out->depth++] = c;
	if (c->args_size)
		p->out->args = need(calloc(1, c->args_size));
	for (size_t i = 0; i < c->n_options; i++)
		if (c->options[i].choices && c->options[i].def)
			*(const char **)member(p, &c->options[i]) = c->options[i].def;
	return 0;
}

static int unknown_command(struct parser *p, const char *word)
{
	struct suggest s = suggest_init(word);
	char path[128];

	args_path(p->out, path, sizeof path);
	for (size_t i = 0; p->command->sub[i]; i++)
		if (!p->command->sub[i]->hidden)
			suggest_try(&s, p->command->sub[i]->name);
	if (s.best)
		return err_set(p->err, -EINVAL, "'%s' has no command '%s'; did you mean '%s %s'?", path, word, path, s.best);
	return err_set(p->err, -EINVAL, "'%s' has no command '%s'; '%s --help' lists those it has", path, word, path);
}

static int word(struct parser *p, const char *w)
{
	if (p->command->sub) {
		const struct command *c = args_find_sub(p->command, w);

		/* "protect zone help launch" is "protect zone launch --help". */
		if (!c && !strcmp(w, "help")) {
			p->out->global.help = true;
			return 0;
		}
		return c ? enter(p, c) : unknown_command(p, w);
	}
	strings_add(&p->out->operands, w);
	return 0;
}

/* All words to the end belong to the operands. One "--" that stands where options end is only a mark. */
static void rest(struct parser *p)
{
	if (p->next < p->argc && !strcmp(p->argv[p->next], "--"))
		p->next++;
	while (p->next < p->argc)
		strings_add(&p->out->operands, p->argv[p->next++]);
}

static int check_complete(struct parser *p)
{
	const struct command *c = p->command;
	size_t n = p->out->operands.n;
	char path[128];

	args_path(p->out, path, sizeof path);
	if (c->sub)
		return err_set(p->err, -EINVAL, "'%s' needs a command; '%s --help' lists those it has", path, path);
	if (n < c->min)
		return err_set(p->err, -EINVAL, "'%s' needs %s; usage: %s [OPTIONS] %s", path, n ? "more operands" : c->operands, path, c->operands);
	if (n > c->max)
		return err_set(p->err, -EINVAL, "'%s' has no use for '%s'; usage: %s [OPTIONS]%s%s", path, p->out->operands.v[c->max], path,
			       c->operands ? " " : "", c->operands ? c->operands : "");
	for (size_t i = 0; i < c->n_options; i++)
		if (c->options[i].required && !*(const char **)member(p, &c->options[i]))
			return err_set(p->err, -EINVAL, "'%s' needs --%s %s", path, c->options[i].name, c->options[i].meta);
	return 0;
}

int args_parse(const struct command *root, int argc, const char *const *argv, struct parsed *ret, struct edera_error *err)
{
	struct parser p = { ret, NULL, argv, argc, 1, err };
	int r;

	*ret = (struct parsed){ 0 };
	r = enter(&p, root);
	while (!r && p.next < argc) {
		const char *w = argv[p.next];

		if (p.command->end_after && ret->operands.n >= p.command->end_after) {
			rest(&p);
			break;
		}
		p.next++;
		if (!strcmp(w, "--") && !p.command->sub) {
			/* What stands behind is no option; a command to run may be marked off once more. */
			while (p.next < argc && (!p.command->end_after || ret->operands.n < p.command->end_after))
				strings_add(&ret->operands, argv[p.next++]);
			rest(&p);
			break;
		}
		if (w[0] == '-' && w[1] == '-')
			r = long_option(&p, w);
		else if (w[0] == '-' && w[1])
			r = short_options(&p, w);
		else
			r = word(&p, w);
	}
	if (r || ret->global.help || ret->global.version)
		return r;
	return check_complete(&p);
}

void parsed_free(struct parsed *p)
{
	const struct command *c = p->depth ? p->path[p->depth - 1] : NULL;

	for (size_t i = 0; c && p->args && i < c->n_options; i++)
		if (c->options[i].type == OPT_LIST)
			strings_free((struct strings *)((char *)p->args + c->options[i].offset));
	strings_free(&p->operands);
	free(p->args);
	*p = (struct parsed){ 0 };
}
