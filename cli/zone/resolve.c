/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "base/cleanup.h"

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	_free_ char *id = NULL;
	int r = cli_resolve_zone(cli, operands->v[0], &id, err);

	if (r)
		return r;
	cli_puts(id);
	return 0;
}

const struct command verb_zone_resolve = {
	.name = "resolve", .summary = "Print the id of a zone", .operands = "NAME", .min = 1, .max = 1, .names = NAMES_ZONE, .run = run,
};
