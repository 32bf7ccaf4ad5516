/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/workload.h"
#include "cli/zone/zone.h"

#include <string.h>

struct args {
	struct list_args list;
	const char *zone;
};

static int by_name(const void *a, const void *b)
{
	const Protect__Control__V1__Workload *x = a, *y = b;
	int r = strcmp(workload_name(x), workload_name(y));

	return r ? r : strcmp(x->id, y->id);
}

static bool in_zone(const Protect__Control__V1__Workload *w, const struct list *zones, const char *wanted)
{
	const char *id = w->spec ? w->spec->zone_id : "";

	if (cli_begins_id(id, wanted))
		return true;
	for (size_t i = 0; i < zones->n; i++) {
		const Protect__Control__V1__Zone *z = zones->rows[i];

		if (!strcmp(z->id, id))
			return !strcmp(zone_name(z), wanted);
	}
	return false;
}

static int only(struct list *list, const struct list *zones, const char *zone, const char *wanted, struct edera_error *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		const Protect__Control__V1__Workload *w = list->rows[i];

		if ((!zone || in_zone(w, zones, zone)) && (!wanted || !strcmp(workload_name(w), wanted) || cli_begins_id(w->id, wanted)))
			list->rows[kept++] = w;
	}
	list->n = kept;
	return kept || !wanted ? 0 : err_set(err, -ENOENT, "unable to resolve workload '%s'", wanted);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	struct replies replies _replies_ = { 0 }, zone_replies _replies_ = { 0 };
	struct list list _list_ = { 0 }, zones _list_ = { 0 };
	struct list_view view = workload_view;
	int r = workload_collect(cli, &replies, &list, err);

	if (!r)
		r = zone_collect(cli, &zone_replies, &zones, err);
	if (!r)
		r = only(&list, &zones, a->zone, operands->n ? operands->v[0] : NULL, err);
	if (r)
		return r;
	if (a->zone)
		view.empty = NULL;
	view.context = &zones;
	list_sort(&list, by_name);
	return list_print(&list, &a->list, &view, &protect__control__v1__workload__descriptor);
}

static const struct opt options[] = {
	LIST_OUTPUT(struct args), LIST_SELECTOR(struct args),
	{ "zone", 'z', OPT_STRING, AT(struct args, zone), "ZONE", "only workloads of this zone", .names = NAMES_ZONE },
};

static const struct example examples[] = {
	{ "protect workload list", NULL },
	{ "protect workload list --selector status.state=running --output yaml", NULL },
	{ 0 },
};

const struct command verb_workload_list = {
	.name = "list", .summary = "List the workloads of this host", .operands = "[WORKLOAD]", .max = 1, .names = NAMES_WORKLOAD,
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
