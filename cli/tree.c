/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"

static const struct command *const groups[] = {
	&zone_group, &workload_group, &image_group, &plugin_group, &host_group, &device_group, &network_group, &complete_command, NULL,
};

static const struct example examples[] = {
	{ "protect zone launch --name web --wait", "a zone with this host's default kernel" },
	{ "protect workload launch --zone web --name hello -t -a docker.io/library/alpine:3.20 uname -r", "a container in it" },
	{ "protect zone destroy web", NULL },
	{ 0 },
};

const struct command root_command = {
	.name = "protect", .summary = "Run containers in zones: small virtual machines, each with its own Linux kernel", .sub = groups, .examples = examples,
};
