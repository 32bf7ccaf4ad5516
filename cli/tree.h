/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include "cli/command.h"

extern const struct command root_command;
extern const struct command zone_group, workload_group, image_group, plugin_group, host_group, device_group, network_group, complete_command;

#endif
