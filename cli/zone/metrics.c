/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "base/cleanup.h"
#include "cli/image/image.h"

#include <string.h>

struct args {
	const char *output;
};

typedef Protect__Control__V1__MetricNode Node;

static void print_value(const Node *n, struct buf *b)
{
	double v = n->value->kind_case == GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE ? n->value->number_value : 0;
	struct json_object *o;

	if (n->value->kind_case != GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE) {
		o = format_message(&n->value->base);
		text_escape(b, o ? json_object_get_string(o) : "");
		json_object_put(o);
		return;
	}
	switch (n->format) {
	case PROTECT__CONTROL__V1__METRIC_FORMAT__METRIC_FORMAT_BYTES:
		text_size(b, v > 0 ? (uint64_t)v : 0);
		break;
	case PROTECT__CONTROL__V1__METRIC_FORMAT__METRIC_FORMAT_DURATION_SECONDS:
		buf_printf(b, "%.3f s", v);
		break;
	case PROTECT__CONTROL__V1__METRIC_FORMAT__METRIC_FORMAT_PERCENT:
		buf_printf(b, "%.1f %%", v);
		break;
	default:
		buf_printf(b, "%.15g", v);
	}
}

/* The checker of what comes in has bounded the depth. */
static void print_tree(const Node *n, unsigned depth, struct buf *b)
{
	buf_printf(b, "%*s", (int)depth * 2, "");
	text_escape(b, n->name);
	if (n->value) {
		buf_puts(b, ": ");
		print_value(n, b);
	}
	buf_puts(b, "\n");
	for (size_t i = 0; i < n->n_children; i++)
		print_tree(n->children[i], depth + 1, b);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__ReadZoneMetricsRequest request = PROTECT__CONTROL__V1__READ_ZONE_METRICS_REQUEST__INIT;
	Protect__Control__V1__ReadZoneMetricsReply *reply _message_ = NULL;
	struct buf out _buf_ = BUF_INIT;
	_free_ char *id = NULL;
	int r = cli_resolve_zone(cli, operands->v[0], &id, err);

	if (r)
		return r;
	request.zone_id = id;
	r = cli_call(cli, CONTROL, "ReadZoneMetrics", &request, &reply, err);
	if (r)
		return r;
	if (reply->root && !strcmp(a->output, "tree"))
		print_tree(reply->root, 0, &out);
	else if (reply->root)
		format_object(&out, format_parse(a->output), NULL, reply->root);
	cli_print(&out);
	return 0;
}

static const char *const formats[] = { "tree", "json", "json-pretty", "jsonl", "yaml", "key-value", NULL };

static const struct opt options[] = {
	{ "output", 'o', OPT_STRING, AT(struct args, output), "FORMAT", "how to print", .def = "tree", .choices = formats, .alias = "format", .alias_letter = 'f' },
};

const struct command verb_zone_metrics = {
	.name = "metrics", .summary = "Print what a zone measures of itself", .operands = "ZONE", .min = 1, .max = 1, .names = NAMES_ZONE,
	OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
