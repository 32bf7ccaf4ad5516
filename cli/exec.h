/* SPDX-License-Identifier: Apache-2.0 */
/* ExecuteZoneCommand, in a zone or in one of its workloads. */
#ifndef CLI_EXEC_H
#define CLI_EXEC_H

#include "cli/cli.h"

struct exec_args {
	struct strings environment;
	const char *directory, *user;
	bool tty;
};
#define EXEC_OPTIONS(type) \
	{ "env", 'e', OPT_LIST, AT(type, environment), "KEY=VALUE", "set in its environment; KEY alone takes the value it has here" }, \
	{ "workdir", 'w', OPT_STRING, AT(type, directory), "DIR", "where it starts", .alias = "working-directory" }, \
	{ "user", 'u', OPT_STRING, AT(type, user), "USER[:GROUP]", "who it runs as, by name or number" }, \
	{ "tty", 't', OPT_FLAG, AT(type, tty), NULL, "give it a terminal" }

/* workload_id NULL: in the zone itself. Returns the exit status of the command. */
int exec_run(struct cli *, const char *zone_id, const char *workload_id, const struct exec_args *, const char *const *argv, size_t argc, struct edera_error *);

#endif
