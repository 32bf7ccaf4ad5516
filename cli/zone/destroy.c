/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "base/cleanup.h"
#include "cli/destroy.h"

struct args {
	bool wait, all;
	struct strings selectors;
};

typedef Protect__Control__V1__Zone Zone;

static bool is_over(const Zone *z)
{
	return !z || zone_state(z) == PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYED || zone_state(z) == PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_FAILED;
}

int zone_destroy(struct cli *cli, struct waiter *w, const char *id, struct edera_error *err)
{
	Protect__Control__V1__DestroyZoneRequest request = PROTECT__CONTROL__V1__DESTROY_ZONE_REQUEST__INIT;
	Zone *last _message_ = NULL;
	int r;

	request.zone_id = (char *)id;
	r = cli_call(cli, CONTROL, "DestroyZone", &request, NULL, err);
	/* Once that is answered a zone that had failed before is being destroyed like any other. */
	if (!r && w)
		r = wait_zone(w, id, is_over, NULL, &last, err);
	if (!r && last && zone_state(last) == PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_FAILED)
		r = err_set(err, -EIO, "cannot destroy the zone '%s' (%s): %s", zone_name(last), id, *zone_failure(last) ? zone_failure(last) : "the daemon gives no reason");
	return r;
}

static const char *row_id(const void *row) { return ((const Zone *)row)->id; }
static const char *row_name(const void *row) { return zone_name(row); }

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	static const struct destroyable zones = { "zone", &protect__control__v1__zone__descriptor, cli_resolve_zone, zone_collect, row_id, row_name, zone_destroy };
	const struct args *a = args;
	bool many = a->all || a->selectors.n;

	if (many == !!operands->n)
		return cli_bad_usage(many ? "name zones, or choose them by --all or --selector, not both" : "which zone? name it, or give --all or --selector");
	return destroy_run(cli, &zones, a->wait, operands, &a->selectors, err);
}

static const struct opt options[] = {
	{ "wait", 'W', OPT_FLAG, AT(struct args, wait), NULL, "return when it is gone" },
	{ "all", 'A', OPT_FLAG, AT(struct args, all), NULL, "all zones of this host" },
	{ "selector", 'l', OPT_LIST, AT(struct args, selectors), "FIELD=VALUE", "all zones that have this value there, e.g. status.state=failed" },
};

static const struct example examples[] = {
	{ "protect zone destroy web", NULL },
	{ "protect zone destroy --selector status.state=failed", NULL },
	{ 0 },
};

const struct command verb_zone_destroy = {
	.name = "destroy", .summary = "Destroy zones with all that runs in them", .operands = "[ZONE...]", .max = ANY, .names = NAMES_ZONE,
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
