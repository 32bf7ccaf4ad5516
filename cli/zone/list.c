/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"

#include <string.h>

struct args {
	struct list_args list;
};

static int by_name(const void *a, const void *b)
{
	const Protect__Control__V1__Zone *x = a, *y = b;
	int r = strcmp(zone_name(x), zone_name(y));

	return r ? r : strcmp(x->id, y->id);
}

/* Those with that name or beginning of an id; an error if there is none. */
static int only(struct list *list, const char *wanted, struct edera_error *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		const Protect__Control__V1__Zone *z = list->rows[i];

		if (!strcmp(zone_name(z), wanted) || cli_begins_id(z->id, wanted))
			list->rows[kept++] = z;
	}
	list->n = kept;
	return kept ? 0 : err_set(err, -ENOENT, "unable to resolve zone '%s'", wanted);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	struct replies replies _replies_ = { 0 };
	struct list list _list_ = { 0 };
	int r = zone_collect(cli, &replies, &list, err);

	if (!r && operands->n)
		r = only(&list, operands->v[0], err);
	if (r)
		return r;
	list_sort(&list, by_name);
	return list_print(&list, &a->list, &zone_view, &protect__control__v1__zone__descriptor);
}

static const struct opt options[] = { LIST_OUTPUT(struct args), LIST_SELECTOR(struct args) };

static const struct example examples[] = {
	{ "protect zone list", NULL },
	{ "protect zone list --selector status.state=failed", NULL },
	{ "protect zone list web --output json-pretty", NULL },
	{ NULL, NULL },
};

const struct command verb_zone_list = {
	.name = "list", .summary = "List the zones of this host", .operands = "[ZONE]", .max = 1, .names = NAMES_ZONE,
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
