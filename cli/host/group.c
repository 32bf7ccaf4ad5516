/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"
#include "cli/host/host.h"

static const struct command *const verbs[] = { &verb_host_status, &verb_host_cpu_topology, &verb_host_hv_console, &verb_host_hv_debug_info, NULL };

const struct command host_group = { .name = "host", .summary = "This host and its hypervisor", .sub = verbs };
