/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec.h"
#include "base/cleanup.h"
#include "cli/zone/zone.h"

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	_free_ char *id = NULL;
	int r = cli_resolve_zone(cli, operands->v[0], &id, err);

	return r ? r : exec_run(cli, id, NULL, args, operands->v + 1, operands->n - 1, err);
}

static const struct opt options[] = { EXEC_OPTIONS(struct exec_args) };

static const struct example examples[] = {
	{ "protect zone exec web uname -a", NULL },
	{ "protect zone exec -t web sh", NULL },
	{ 0 },
};

const struct command verb_zone_exec = {
	.name = "exec", .summary = "Run a command in a zone, outside its workloads",
	.about = "Everything behind the zone's name belongs to the command. stdin, stdout and stderr are connected; the exit status is the command's. "
		 "With --tty, Ctrl+] leaves the command behind.",
	.operands = "ZONE COMMAND...", .min = 2, .max = ANY, .end_after = 1, .names = NAMES_ZONE, OPTIONS(options), .args_size = sizeof(struct exec_args), .run = run,
	.examples = examples,
};
