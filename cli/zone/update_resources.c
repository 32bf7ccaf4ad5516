/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "base/cleanup.h"

#include <string.h>

struct args {
	uint32_t min_cpus, max_cpus, target_cpus;
	uint64_t min_memory, max_memory, target_memory;
	const char *policy;
};

typedef Protect__Control__V1__ZoneResourcesSpec Resources;

/* What is not named keeps its value: the request carries all of them. */
static void change(Resources *r, const struct args *a)
{
	if (a->min_cpus)
		r->min_cpus = a->min_cpus;
	if (a->max_cpus)
		r->max_cpus = a->max_cpus;
	if (a->target_cpus)
		r->target_cpus = a->target_cpus;
	if (a->min_memory)
		r->min_memory = a->min_memory;
	if (a->max_memory)
		r->max_memory = a->max_memory;
	if (a->target_memory)
		r->target_memory = a->target_memory;
	if (a->policy)
		r->adjustment_policy = strcmp(a->policy, "static") ? PROTECT__CONTROL__V1__ZONE_RESOURCE_ADJUSTMENT_POLICY__ZONE_RESOURCE_ADJUSTMENT_POLICY_DYNAMIC :
								     PROTECT__CONTROL__V1__ZONE_RESOURCE_ADJUSTMENT_POLICY__ZONE_RESOURCE_ADJUSTMENT_POLICY_STATIC;
}

static Resources *current(const Protect__Control__V1__Zone *z)
{
	if (z->status && z->status->resource_status && z->status->resource_status->active_resources)
		return z->status->resource_status->active_resources;
	return z->spec ? z->spec->initial_resources : NULL;
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	Protect__Control__V1__GetZoneRequest get = PROTECT__CONTROL__V1__GET_ZONE_REQUEST__INIT;
	Protect__Control__V1__GetZoneReply *got _message_ = NULL;
	Protect__Control__V1__UpdateZoneResourcesRequest request = PROTECT__CONTROL__V1__UPDATE_ZONE_RESOURCES_REQUEST__INIT;
	Resources fresh = PROTECT__CONTROL__V1__ZONE_RESOURCES_SPEC__INIT;
	_free_ char *id = NULL;
	int r = cli_resolve_zone(cli, operands->v[0], &id, err);

	if (r)
		return r;
	get.zone_id = request.zone_id = id;
	r = cli_call(cli, CONTROL, "GetZone", &get, &got, err);
	if (r)
		return r;
	request.resources = got->zone && current(got->zone) ? current(got->zone) : &fresh;
	change(request.resources, args);
	return cli_call(cli, CONTROL, "UpdateZoneResources", &request, NULL, err);
}

static const char *const policies[] = { "static", "dynamic", NULL };

static const struct opt options[] = {
	{ "max-cpus", 'C', OPT_U32, AT(struct args, max_cpus), "N", "virtual CPUs it may ever have" },
	{ "target-cpus", 'c', OPT_U32, AT(struct args, target_cpus), "N", "virtual CPUs it should have" },
	{ "min-cpus", 0, OPT_U32, AT(struct args, min_cpus), "N", "virtual CPUs it always keeps" },
	{ "max-memory", 'M', OPT_U64, AT(struct args, max_memory), "MIB", "memory it may ever have, in MiB" },
	{ "target-memory", 'm', OPT_U64, AT(struct args, target_memory), "MIB", "memory it should have, in MiB" },
	{ "min-memory", 0, OPT_U64, AT(struct args, min_memory), "MIB", "memory it always keeps, in MiB" },
	{ "policy", 'p', OPT_STRING, AT(struct args, policy), "POLICY", "whether memory follows use between minimum and maximum", .choices = policies,
	  .alias = "resource-adjustment-policy" },
};

static const struct example examples[] = {
	{ "protect zone update-resources -m 4096 web -p static", NULL },
	{ 0 },
};

const struct command verb_zone_update_resources = {
	.name = "update-resources", .summary = "Change the memory and CPUs of a running zone", .about = "What is not given, or given as 0, stays as it is. The bounds are those the zone was launched with.",
	.operands = "ZONE", .min = 1, .max = 1, .names = NAMES_ZONE, OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
