/* SPDX-License-Identifier: Apache-2.0 */
/* What could stand next on a command line; the completions of the shells ask it. */
#include "cli/args.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/image/image.h"
#include "cli/plugin/plugin.h"
#include "cli/tree.h"
#include "cli/workload/workload.h"
#include "cli/zone/zone.h"

#include <string.h>

static void offer(struct buf *out, const char *prefix, const char *word, const char *what)
{
	struct buf safe _buf_ = BUF_INIT;

	const char *before, *end;
	size_t n;

	if (!text_starts(word, prefix))
		return;
	text_escape(&safe, word);
	n = strlen((const char *)safe.data);
	/* Once is enough: an image may be there in two formats. */
	for (before = (const char *)out->data; before && *before; before = end + 1) {
		end = strchr(before, '\n');
		if (!strncmp(before, (const char *)safe.data, n) && before[n] == '\t')
			return;
	}
	buf_printf(out, "%s\t%s\n", (const char *)safe.data, what ? what : "");
}

static void offer_zones(struct cli *cli, struct buf *out, const char *prefix)
{
	struct replies replies _replies_ = { 0 };
	struct list list _list_ = { 0 };

	if (zone_collect(cli, &replies, &list, NULL))
		return;
	for (size_t i = 0; i < list.n; i++) {
		const Protect__Control__V1__Zone *z = list.rows[i];

		offer(out, prefix, *zone_name(z) ? zone_name(z) : z->id, z->id);
	}
}

static void offer_workloads(struct cli *cli, struct buf *out, const char *prefix)
{
	struct replies replies _replies_ = { 0 };
	struct list list _list_ = { 0 };

	if (workload_collect(cli, &replies, &list, NULL))
		return;
	for (size_t i = 0; i < list.n; i++) {
		const Protect__Control__V1__Workload *w = list.rows[i];

		offer(out, prefix, *workload_name(w) ? workload_name(w) : w->id, w->id);
	}
}

static void offer_images(struct cli *cli, struct buf *out, const char *prefix)
{
	Edera__Node__V1__ListImagesReply *reply _message_ = NULL;
	struct list list _list_ = { 0 };

	if (image_collect(cli, &reply, &list, NULL))
		return;
	for (size_t i = 0; i < list.n; i++) {
		const Edera__Node__V1__Image *image = list.rows[i];

		for (size_t k = 0; k < image->n_names; k++)
			offer(out, prefix, image->names[k], image->format);
		offer(out, prefix, image->digest, image->format);
	}
}

static void offer_variants(struct cli *cli, struct buf *out, const char *prefix)
{
	Protect__Control__V1__ListKernelVariantsRequest request = PROTECT__CONTROL__V1__LIST_KERNEL_VARIANTS_REQUEST__INIT;
	Protect__Control__V1__ListKernelVariantsReply *reply _message_ = NULL;

	if (cli_call(cli, CONTROL, "ListKernelVariants", &request, &reply, NULL))
		return;
	for (size_t i = 0; i < reply->n_variants; i++)
		offer(out, prefix, reply->variants[i]->name, reply->variants[i]->image);
}

static void offer_plugins(struct cli *cli, struct buf *out, const char *prefix)
{
	Edera__Node__V1__ListPluginsRequest request = EDERA__NODE__V1__LIST_PLUGINS_REQUEST__INIT;
	Edera__Node__V1__ListPluginsReply *reply _message_ = NULL;

	if (cli_call(cli, NODE, "ListPlugins", &request, &reply, NULL))
		return;
	for (size_t i = 0; i < reply->n_plugins; i++)
		offer(out, prefix, reply->plugins[i]->name, reply->plugins[i]->summary);
}

static void offer_names(struct cli *cli, struct buf *out, enum names names, const char *prefix)
{
	switch (names) {
	case NAMES_ZONE:
		offer_zones(cli, out, prefix);
		break;
	case NAMES_WORKLOAD:
		offer_workloads(cli, out, prefix);
		break;
	case NAMES_IMAGE:
		offer_images(cli, out, prefix);
		break;
	case NAMES_VARIANT:
		offer_variants(cli, out, prefix);
		break;
	case NAMES_PLUGIN:
		offer_plugins(cli, out, prefix);
		break;
	case NAMES_FILE:
		/* The shell is better at it. */
		buf_puts(out, ":file\n");
		break;
	case NAMES_NONE:
		break;
	}
}

static void offer_options(struct buf *out, const struct opt *options, size_t n, const char *prefix)
{
	for (size_t i = 0; i < n; i++) {
		char word[64];

		snprintf(word, sizeof word, "--%s", options[i].name);
		if (!options[i].hidden)
			offer(out, prefix, word, options[i].help);
	}
}

static void offer_value(struct cli *cli, struct buf *out, const struct opt *o, const char *prefix)
{
	for (size_t i = 0; o->choices && o->choices[i]; i++)
		offer(out, prefix, o->choices[i], NULL);
	offer_names(cli, out, o->names, prefix);
}

/* What the operands name, which a flag may change. */
static enum names flagged(const struct command *c, const char *word, enum names otherwise)
{
	const struct opt *o = text_starts(word, "--") ? args_find_long(c, word + 2, strlen(word + 2)) : NULL;

	return o && o->type == OPT_FLAG && o->names != NAMES_NONE ? o->names : otherwise;
}

/* The option whose value the word is: "--name" or "-n" without a value before it. */
static const struct opt *waiting_option(const struct command *c, const char *before)
{
	const struct opt *o = NULL;

	if (text_starts(before, "--") && before[2])
		o = args_find_long(c, before + 2, strlen(before + 2));
	else if (before[0] == '-' && before[1] && before[1] != '-')
		o = args_find_letter(c, before[strlen(before) - 1]);
	return o && o->type != OPT_FLAG ? o : NULL;
}

/* "--output=js": the words offered hold the option too. */
static void offer_attached(struct cli *cli, struct buf *out, const struct command *c, const char *word)
{
	const char *equals = strchr(word, '=');
	const struct opt *o = args_find_long(c, word + 2, (size_t)(equals - word - 2));
	struct buf values _buf_ = BUF_INIT;

	if (!o || o->type == OPT_FLAG)
		return;
	offer_value(cli, &values, o, equals + 1);
	for (char *line = values.data ? strtok((char *)values.data, "\n") : NULL; line; line = strtok(NULL, "\n"))
		buf_printf(out, "%.*s%s\n", line[0] == ':' ? 0 : (int)(equals - word + 1), word, line);
}

/* Words before the last lead to a command; the last is what is being typed. */
static void complete(struct cli *cli, const struct strings *words, struct buf *out)
{
	const struct command *c = cli->root;
	const char *last = words->n ? words->v[words->n - 1] : "";
	enum names names = NAMES_NONE;
	size_t operands = 0;

	for (size_t i = 0; i + 1 < words->n; i++) {
		const struct opt *o = waiting_option(c, words->v[i]);

		if (o && i + 2 == words->n) {
			offer_value(cli, out, o, last);
			return;
		}
		if (o) {
			i++;
		} else if (words->v[i][0] != '-') {
			const struct command *sub = args_find_sub(c, words->v[i]);

			if (!sub && c->sub)
				return;
			c = sub ? sub : c;
			operands += !sub;
		} else {
			names = flagged(c, words->v[i], names);
		}
	}
	if (c->end_after && operands >= c->end_after)
		return;
	if (text_starts(last, "--") && strchr(last, '=')) {
		offer_attached(cli, out, c, last);
		return;
	}
	if (*last == '-') {
		offer_options(out, c->options, c->n_options, last);
		offer_options(out, global_options, n_global_options, last);
		return;
	}
	for (size_t i = 0; c->sub && c->sub[i]; i++)
		if (!c->sub[i]->hidden)
			offer(out, last, c->sub[i]->name, c->sub[i]->summary);
	if (!c->sub && operands < c->max && (!operands || c->max == ANY))
		offer_names(cli, out, names != NAMES_NONE ? names : c->names, last);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	struct buf out _buf_ = BUF_INIT;

	cli->timeout_ms = 1000; /* a shell's prompt waits for this */
	complete(cli, operands, &out);
	cli_print(&out);
	return 0;
}

const struct command complete_command = {
	.name = "__complete", .summary = "Print what could stand next on a command line, with a tab and what it means", .operands = "[WORD...]", .max = ANY, .hidden = true, .run = run,
};
