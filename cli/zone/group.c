/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"
#include "cli/zone/zone.h"

static const struct command *const verbs[] = {
	&verb_zone_launch, &verb_zone_list, &verb_zone_watch, &verb_zone_logs, &verb_zone_exec, &verb_zone_attach, &verb_zone_destroy, &verb_zone_resolve, &verb_zone_update_resources, &verb_zone_metrics, NULL,
};

const struct command zone_group = { .name = "zone", .summary = "Zones: small virtual machines, each with a kernel of its own", .sub = verbs };
