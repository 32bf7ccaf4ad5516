/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plugin/plugin.h"
#include "base/cleanup.h"

struct args {
	const char *output;
};

int plugin_get(struct cli *cli, const char *name, Edera__Node__V1__GetPluginReply **ret, struct edera_error *err)
{
	Edera__Node__V1__GetPluginRequest request = EDERA__NODE__V1__GET_PLUGIN_REQUEST__INIT;
	int r;

	request.name = (char *)name;
	r = cli_call(cli, NODE, "GetPlugin", &request, ret, err);
	if (!r && !(*ret)->plugin)
		r = -ENOENT;
	return r == -ENOENT ? err_set(err, r, "there is no plugin '%s'; 'protect plugin list' shows those there are", name) : r;
}

static void line(struct buf *b, const char *label, const char *value)
{
	if (!value || !*value)
		return;
	buf_printf(b, "%-13s", label);
	text_escape(b, value);
	buf_puts(b, "\n");
}

static void joined(struct buf *b, const char *label, char *const *items, size_t n)
{
	struct buf all _buf_ = BUF_INIT;

	for (size_t i = 0; i < n; i++)
		buf_printf(&all, "%s%s", i ? ", " : "", items[i]);
	line(b, label, (const char *)all.data);
}

static void describe(struct buf *b, const Edera__Node__V1__GetPluginReply *reply)
{
	const Edera__Node__V1__Plugin *p = reply->plugin;
	struct buf word _buf_ = BUF_INIT;

	format_enum_word(&word, &edera__node__v1__plugin_state__descriptor, (int)p->state);
	line(b, "Name:", p->name);
	line(b, "Summary:", p->summary);
	line(b, "Version:", p->version);
	line(b, "ABI:", p->abi);
	line(b, "License:", p->license);
	line(b, "State:", (const char *)word.data);
	line(b, "Reason:", p->reason);
	line(b, "Path:", p->path);
	for (size_t i = 0; i < reply->n_provides; i++) {
		const Edera__Node__V1__PluginProvide *provide = reply->provides[i];

		buf_clear(&word);
		buf_printf(&word, "%s '%s'", provide->kind, provide->name);
		line(b, "Provides:", (const char *)word.data);
		joined(b, "  can:", provide->capabilities, provide->n_capabilities);
	}
	joined(b, "Needs:", reply->needs, reply->n_needs);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	enum format format = format_parse(a->output);
	Edera__Node__V1__GetPluginReply *reply _message_ = NULL;
	struct buf out _buf_ = BUF_INIT;
	int r = plugin_get(cli, operands->v[0], &reply, err);

	if (r)
		return r;
	if (format == FORMAT_SIMPLE)
		describe(&out, reply);
	else
		format_object(&out, format, NULL, reply);
	cli_print(&out);
	return 0;
}

static const struct opt options[] = {
	{ "output", 'o', OPT_STRING, AT(struct args, output), "FORMAT", "how to print", .def = "simple", .choices = format_data_names, .alias = "format", .alias_letter = 'f' },
};

const struct command verb_plugin_info = {
	.name = "info", .summary = "Describe a plugin: what it provides, can and needs", .operands = "NAME", .min = 1, .max = 1, .names = NAMES_PLUGIN,
	OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
