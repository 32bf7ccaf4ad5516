/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "base/cleanup.h"
#include "cli/wait.h"

struct args {
	bool wait, all;
	struct strings selectors;
};

static bool is_gone(const Protect__Control__V1__Zone *z)
{
	return !z || zone_state(z) == PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYED;
}

static int destroy(struct cli *cli, struct waiter *w, const char *id, struct edera_error *err)
{
	Protect__Control__V1__DestroyZoneRequest request = PROTECT__CONTROL__V1__DESTROY_ZONE_REQUEST__INIT;
	Protect__Control__V1__Zone *last _message_ = NULL;
	int r;

	request.zone_id = (char *)id;
	r = cli_call(cli, CONTROL, "DestroyZone", &request, NULL, err);
	return r || !w ? r : wait_zone(w, id, is_gone, NULL, &last, err);
}

static int destroy_named(struct cli *cli, struct waiter *w, const struct strings *names, struct edera_error *err)
{
	int failed = 0;

	/* One that cannot be destroyed does not save the others. */
	for (size_t i = 0; i < names->n; i++) {
		struct edera_error one = EDERA_ERROR_INIT;
		_free_ char *id = NULL;
		int r = cli_resolve_zone(cli, names->v[i], &id, &one);

		if (!r)
			r = destroy(cli, w, id, &one);
		if (!r)
			continue;
		if (names->n == 1) {
			*err = one;
			return r;
		}
		cli_warn("%s", one.msg);
		failed = 1;
	}
	return failed;
}

static int destroy_all(struct cli *cli, struct waiter *w, const struct strings *selectors, struct edera_error *err)
{
	struct replies replies _replies_ = { 0 };
	struct list list _list_ = { 0 };
	int r = zone_collect(cli, &replies, &list, err), failed = 0;

	if (!r)
		r = list_select(&list, selectors, &protect__control__v1__zone__descriptor);
	if (r)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		const Protect__Control__V1__Zone *z = list.rows[i];
		struct edera_error one = EDERA_ERROR_INIT;

		if (destroy(cli, w, z->id, &one)) {
			cli_warn("zone '%s': %s", zone_name(z), one.msg);
			failed = 1;
		}
	}
	return failed;
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	bool many = a->all || a->selectors.n;
	struct waiter *w = NULL;
	int r;

	if (many == !!operands->n)
		return cli_bad_usage(many ? "name zones, or choose them by --all or --selector, not both" : "which zone? name it, or give --all or --selector");
	if (a->wait) {
		w = wait_open(cli, err);
		if (!w)
			return -EIO;
	}
	r = many ? destroy_all(cli, w, &a->selectors, err) : destroy_named(cli, w, operands, err);
	wait_close(w);
	return r;
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
