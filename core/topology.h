/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs of this host and how they belong together, as the kernel tells it. */
#ifndef CORE_TOPOLOGY_H
#define CORE_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

enum cpu_class { CPU_STANDARD, CPU_PERFORMANCE, CPU_EFFICIENCY };

struct cpu {
	uint32_t number, node, socket, core; /* core: within its socket */
	uint32_t thread;                     /* within its core, from 0 */
	enum cpu_class class;
};

/* Those that are online, by number; sys: "/sys". The caller frees *ret; NULL and 0 where the kernel tells nothing. */
size_t topology_read(const char *sys, struct cpu **ret);

#endif
