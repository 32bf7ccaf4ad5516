/* SPDX-License-Identifier: Apache-2.0 */
#include "topology.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <stdlib.h>
#include <string.h>

#define CPUS_MAX 65536u

static uint32_t read_number(const char *sys, unsigned cpu, const char *file)
{
	_buf_ struct buf b = BUF_INIT;
	char path[PATH_CAP];
	long v;

	if (path_format(path, NULL, "%s/devices/system/cpu/cpu%u/topology/%s", sys, cpu, file) || path_read_file(path, 64, &b, NULL) || !b.len)
		return 0;
	v = strtol((char *)b.data, NULL, 10);
	return v > 0 ? (uint32_t)v : 0; /* -1: the kernel does not know */
}

/* The next range of a list such as "0-3,8,10-11\n". */
static bool next_range(const char **list, unsigned *first, unsigned *last)
{
	char *end;

	*first = *last = (unsigned)strtoul(*list, &end, 10);
	if (end == *list)
		return false;
	if (*end == '-')
		*last = (unsigned)strtoul(end + 1, &end, 10);
	*list = *end == ',' ? end + 1 : end;
	return *first <= *last && *last < CPUS_MAX;
}

static void read_list(struct buf *b, const char *sys, const char *file)
{
	char path[PATH_CAP];

	if (path_format(path, NULL, "%s/%s", sys, file) || path_read_file(path, 1 << 16, b, NULL))
		buf_clear(b);
	buf_puts(b, "");
}

static struct cpu *find(struct cpu *cpus, size_t n, unsigned number)
{
	for (size_t i = 0; i < n; i++)
		if (cpus[i].number == number)
			return &cpus[i];
	return NULL;
}

static void set_class(const char *sys, const char *file, enum cpu_class class, struct cpu *cpus, size_t n)
{
	_buf_ struct buf b = BUF_INIT;
	unsigned first, last;
	const char *list;

	read_list(&b, sys, file);
	list = b.data ? (const char *)b.data : "";
	while (next_range(&list, &first, &last))
		for (unsigned i = first; i <= last; i++) {
			struct cpu *c = find(cpus, n, i);

			if (c)
				c->class = class;
		}
}

static void set_nodes(const char *sys, struct cpu *cpus, size_t n)
{
	_buf_ struct buf nodes = BUF_INIT;
	unsigned first, last;
	const char *list;

	read_list(&nodes, sys, "devices/system/node/online");
	list = nodes.data ? (const char *)nodes.data : "";
	while (next_range(&list, &first, &last))
		for (unsigned node = first; node <= last; node++) {
			_buf_ struct buf b = BUF_INIT;
			unsigned from, to;
			const char *of;
			char file[64];

			snprintf(file, sizeof file, "devices/system/node/node%u/cpulist", node);
			read_list(&b, sys, file);
			of = b.data ? (const char *)b.data : "";
			while (next_range(&of, &from, &to))
				for (unsigned i = from; i <= to; i++) {
					struct cpu *c = find(cpus, n, i);

					if (c)
						c->node = node;
				}
		}
}

static bool add(struct cpu **cpus, size_t *n, const char *sys, unsigned number)
{
	struct cpu *more = reallocarray(*cpus, *n + 1, sizeof *more), *c;

	if (!more)
		return false;
	*cpus = more;
	c = &more[*n];
	*c = (struct cpu){ .number = number, .socket = read_number(sys, number, "physical_package_id"), .core = read_number(sys, number, "core_id") };
	for (size_t i = 0; i < *n; i++)
		c->thread += more[i].socket == c->socket && more[i].core == c->core;
	(*n)++;
	return true;
}

size_t topology_read(const char *sys, struct cpu **ret)
{
	_buf_ struct buf online = BUF_INIT;
	struct cpu *cpus = NULL;
	unsigned first, last;
	const char *list;
	size_t n = 0;

	read_list(&online, sys, "devices/system/cpu/online");
	list = online.data ? (const char *)online.data : "";
	while (next_range(&list, &first, &last))
		for (unsigned i = first; i <= last; i++)
			if (!add(&cpus, &n, sys, i))
				break;
	set_nodes(sys, cpus, n);
	/* Hybrid machines. */
	set_class(sys, "devices/cpu_core/cpus", CPU_PERFORMANCE, cpus, n);
	set_class(sys, "devices/cpu_atom/cpus", CPU_EFFICIENCY, cpus, n);
	*ret = cpus;
	return n;
}
