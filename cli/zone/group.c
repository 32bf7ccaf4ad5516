/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"
#include "cli/zone/zone.h"

static const struct command *const verbs[] = {
	&zone_launch, &zone_list, &zone_watch, &zone_logs, &zone_exec, &zone_attach, &zone_destroy, &zone_resolve, &zone_update_resources, &zone_metrics, NULL,
};

const struct command zone_group = { .name = "zone", .summary = "Zones: small virtual machines, each with a kernel of its own", .sub = verbs };
