/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plugin/plugin.h"
#include "base/cleanup.h"

struct args {
	struct list_args list;
};

typedef Edera__Node__V1__PluginConfKey Key;

static void cell_name(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Key *)m)->name);
}

static void cell_type(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Key *)m)->type);
}

static void cell_value(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Key *)m)->value);
}

static void cell_default(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Key *)m)->default_);
}

static void cell_doc(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Key *)m)->doc);
}

static const struct column columns[] = {
	{ .title = "key", .cell = cell_name },
	{ .title = "type", .cell = cell_type },
	{ .title = "value", .cell = cell_value },
	{ .title = "default", .cell = cell_default },
	{ .title = "meaning", .cell = cell_doc },
};

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Edera__Node__V1__GetPluginReply *reply _message_ = NULL;
	struct list_view view = { columns, ARRAY_SIZE(columns), NULL, 0, "this plugin has nothing to configure", NULL };
	struct list list _list_ = { 0 };
	int r = plugin_get(cli, operands->v[0], &reply, err);

	if (r)
		return r;
	for (size_t i = 0; i < reply->n_conf; i++)
		list_add(&list, reply->conf[i]);
	return list_print(&list, &a->list, &view, &edera__node__v1__plugin_conf_key__descriptor);
}

static const struct opt options[] = { LIST_OUTPUT(struct args), LIST_SELECTOR(struct args) };

const struct command verb_plugin_conf = {
	.name = "conf", .summary = "List the keys of a plugin's section in the daemon's configuration",
	.about = "The section is [plugin.NAME] of the daemon's configuration file. Secrets are not shown.",
	.operands = "NAME", .min = 1, .max = 1, .names = NAMES_PLUGIN, OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
