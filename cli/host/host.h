/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HOST_H
#define CLI_HOST_H

#include "cli/cli.h"

extern const struct command host_status, host_cpu_topology, host_hv_console, host_hv_debug_info;

#endif
