/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"
#include "cli/plugin/plugin.h"

static const struct command *const verbs[] = { &verb_plugin_list, &verb_plugin_info, &verb_plugin_conf, &verb_plugin_check, NULL };

const struct command plugin_group = { .name = "plugin", .summary = "Plugins: the hypervisor, the image store, the sources of kernel variants", .sub = verbs };
