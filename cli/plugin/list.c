/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plugin/plugin.h"
#include "base/cleanup.h"

#include <string.h>

struct args {
	struct list_args list;
};

typedef Edera__Node__V1__Plugin Plugin;

static void cell_name(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Plugin *)m)->name);
}

static void cell_kinds(const void *m, const void *context, struct buf *b)
{
	const Plugin *p = m;

	for (size_t i = 0; i < p->n_kinds; i++)
		buf_printf(b, "%s%s", i ? ", " : "", p->kinds[i]);
}

static void cell_version(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Plugin *)m)->version);
}

static void cell_abi(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Plugin *)m)->abi);
}

static void cell_state(const void *m, const void *context, struct buf *b)
{
	format_enum_word(b, &edera__node__v1__plugin_state__descriptor, (int)((const Plugin *)m)->state);
}

static enum colour state_colour(const void *m)
{
	switch (((const Plugin *)m)->state) {
	case EDERA__NODE__V1__PLUGIN_STATE__PLUGIN_STATE_LOADED:
		return COLOUR_GREEN;
	case EDERA__NODE__V1__PLUGIN_STATE__PLUGIN_STATE_ERROR:
	case EDERA__NODE__V1__PLUGIN_STATE__PLUGIN_STATE_DEGRADED:
		return COLOUR_RED;
	case EDERA__NODE__V1__PLUGIN_STATE__PLUGIN_STATE_SKIPPED:
		return COLOUR_YELLOW;
	default:
		return COLOUR_NONE;
	}
}

static void cell_reason(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Plugin *)m)->reason);
}

static void cell_path(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Plugin *)m)->path);
}

static const struct column columns[] = {
	{ .title = "name", .cell = cell_name },
	{ .title = "kind", .cell = cell_kinds, .missing = "n/a" },
	{ .title = "version", .cell = cell_version, .missing = "n/a" },
	{ .title = "abi", .cell = cell_abi, .missing = "n/a" },
	{ .title = "state", .cell = cell_state, .colour = state_colour },
	{ .title = "reason", .cell = cell_reason },
	{ .title = "path", .cell = cell_path },
};

static const struct list_view view = { columns, ARRAY_SIZE(columns), NULL, 0, "no plugins were found", NULL };

static int by_name(const void *a, const void *b)
{
	const Plugin *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : strcmp(x->path, y->path);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Edera__Node__V1__ListPluginsRequest request = EDERA__NODE__V1__LIST_PLUGINS_REQUEST__INIT;
	Edera__Node__V1__ListPluginsReply *reply _message_ = NULL;
	struct list list _list_ = { 0 };
	int r = cli_call(cli, NODE, "ListPlugins", &request, &reply, err);

	if (r)
		return r;
	for (size_t i = 0; i < reply->n_plugins; i++)
		list_add(&list, reply->plugins[i]);
	list_sort(&list, by_name);
	return list_print(&list, &a->list, &view, &edera__node__v1__plugin__descriptor);
}

static const struct opt options[] = { LIST_OUTPUT(struct args), LIST_SELECTOR(struct args) };

static const struct example examples[] = {
	{ "protect plugin list", NULL },
	{ "protect plugin list --selector state!=loaded", "what is not in use, and why" },
	{ 0 },
};

const struct command verb_plugin_list = {
	.name = "list", .summary = "List the plugins the daemon found, with their states and the reasons for them",
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
