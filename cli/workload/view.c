/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/workload.h"
#include "base/cleanup.h"
#include "cli/zone/zone.h"

#include <string.h>

typedef Protect__Control__V1__Workload Workload;

const char *workload_name(const Workload *w)
{
	return w->spec && w->spec->name ? w->spec->name : "";
}

Protect__Control__V1__WorkloadState workload_state(const Workload *w)
{
	return w->status ? w->status->state : PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_UNKNOWN;
}

const char *workload_failure(const Workload *w)
{
	return w->status && w->status->error_status && w->status->error_status->message ? w->status->error_status->message : "";
}

static void cell_name(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, workload_name(m));
}

static void cell_id(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Workload *)m)->id);
}

/* The zone's name where the list of zones is at hand and it has one. */
static void cell_zone(const void *m, const void *context, struct buf *b)
{
	const Workload *w = m;
	const struct list *zones = context;
	const char *id = w->spec ? w->spec->zone_id : "";

	for (size_t i = 0; zones && i < zones->n; i++) {
		const Protect__Control__V1__Zone *z = zones->rows[i];

		if (!strcmp(z->id, id) && *zone_name(z)) {
			buf_puts(b, zone_name(z));
			return;
		}
	}
	buf_puts(b, id);
}

static void cell_state(const void *m, const void *context, struct buf *b)
{
	format_enum_word(b, &protect__control__v1__workload_state__descriptor, (int)workload_state(m));
}

static enum colour state_colour(const void *m)
{
	switch (workload_state(m)) {
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_CREATED:
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_RUNNING:
		return COLOUR_GREEN;
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_FAILED:
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_OOMKILLED:
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_DESTROYED:
		return COLOUR_RED;
	case PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_UNKNOWN:
		return COLOUR_NONE;
	default:
		return COLOUR_YELLOW;
	}
}

static void cell_exit_code(const void *m, const void *context, struct buf *b)
{
	const Workload *w = m;

	if (w->status && w->status->exit_status)
		buf_printf(b, "%d", w->status->exit_status->code);
}

static const struct column columns[] = {
	{ .title = "name", .cell = cell_name },
	{ .title = "uuid", .cell = cell_id },
	{ .title = "zone", .cell = cell_zone },
	{ .title = "state", .cell = cell_state, .colour = state_colour },
	{ .title = "exit code", .cell = cell_exit_code, .missing = "n/a" },
};

static const struct column simple[] = {
	{ .cell = cell_id }, { .cell = cell_state }, { .cell = cell_name }, { .cell = cell_zone }, { .cell = cell_exit_code },
};

const struct list_view workload_view = { columns, ARRAY_SIZE(columns), simple, ARRAY_SIZE(simple), "no workloads have been launched", NULL };

int workload_collect(struct cli *cli, struct replies *replies, struct list *list, struct edera_error *err)
{
	Protect__Control__V1__ListWorkloadsRequest request = PROTECT__CONTROL__V1__LIST_WORKLOADS_REQUEST__INIT;
	int r = cli_collect(cli, CONTROL, "ListWorkloads", &request, replies, err);

	for (size_t i = 0; !r && i < replies->n; i++) {
		const Protect__Control__V1__ListWorkloadsReply *reply = replies->v[i];

		for (size_t k = 0; k < reply->n_workloads; k++)
			list_add(list, reply->workloads[k]);
	}
	return r;
}
