/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HOST_H
#define CLI_HOST_H

#include "cli/cli.h"

extern const struct command verb_host_status, verb_host_cpu_topology, verb_host_hv_console, verb_host_hv_debug_info;

#endif
