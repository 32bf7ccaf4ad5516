/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"
#include "cli/host/host.h"

static const struct command *const verbs[] = { &host_status, &host_cpu_topology, &host_hv_console, &host_hv_debug_info, NULL };

const struct command host_group = { .name = "host", .summary = "This host and its hypervisor", .sub = verbs };
