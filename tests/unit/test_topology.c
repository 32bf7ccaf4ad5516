/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's files as they are on machines with several sockets, nodes, threads and kinds of cores, and this machine's own. */
#include "base/path.h"
#include "topology.h"

#include <CUnit/Basic.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[] = "/tmp/topology.XXXXXX";

static void put(const char *file, const char *text)
{
	char path[PATH_CAP], dir[PATH_CAP];

	CU_ASSERT_EQUAL_FATAL(path_format(path, NULL, "%s/%s", root, file), 0);
	strcpy(dir, path);
	CU_ASSERT_EQUAL_FATAL(path_mkdirs(dirname(dir), 0755, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(path_write_file(path, text, strlen(text), 0644, NULL), 0);
}

static void put_cpu(unsigned n, const char *socket, const char *core)
{
	char file[128];

	snprintf(file, sizeof file, "devices/system/cpu/cpu%u/topology/physical_package_id", n);
	put(file, socket);
	snprintf(file, sizeof file, "devices/system/cpu/cpu%u/topology/core_id", n);
	put(file, core);
}

static void is(const struct cpu *c, uint32_t number, uint32_t node, uint32_t socket, uint32_t core, uint32_t thread, enum cpu_class class)
{
	CU_ASSERT_EQUAL(c->number, number);
	CU_ASSERT_EQUAL(c->node, node);
	CU_ASSERT_EQUAL(c->socket, socket);
	CU_ASSERT_EQUAL(c->core, core);
	CU_ASSERT_EQUAL(c->thread, thread);
	CU_ASSERT_EQUAL(c->class, class);
}

/* Two sockets with two threads a core; threads are numbered after all cores; one CPU is offline. */
static void server(void)
{
	struct cpu *cpus;

	put("devices/system/cpu/online", "0-5,7\n");
	put("devices/system/node/online", "0-1\n");
	put("devices/system/node/node0/cpulist", "0-1,4-5\n");
	put("devices/system/node/node1/cpulist", "2-3,7\n");
	put_cpu(0, "0\n", "0\n");
	put_cpu(1, "0\n", "1\n");
	put_cpu(2, "1\n", "0\n");
	put_cpu(3, "1\n", "1\n");
	put_cpu(4, "0\n", "0\n");
	put_cpu(5, "0\n", "1\n");
	put_cpu(7, "1\n", "1\n");
	CU_ASSERT_EQUAL_FATAL(topology_read(root, &cpus), 7);
	is(&cpus[0], 0, 0, 0, 0, 0, CPU_STANDARD);
	is(&cpus[3], 3, 1, 1, 1, 0, CPU_STANDARD);
	is(&cpus[4], 4, 0, 0, 0, 1, CPU_STANDARD);
	is(&cpus[6], 7, 1, 1, 1, 1, CPU_STANDARD);
	free(cpus);
}

static void hybrid(void)
{
	struct cpu *cpus;

	put("devices/cpu_core/cpus", "0-3\n");
	put("devices/cpu_atom/cpus", "4-5,7\n");
	CU_ASSERT_EQUAL_FATAL(topology_read(root, &cpus), 7);
	is(&cpus[1], 1, 0, 0, 1, 0, CPU_PERFORMANCE);
	is(&cpus[6], 7, 1, 1, 1, 1, CPU_EFFICIENCY);
	free(cpus);
}

static void odd(void)
{
	struct cpu *cpus;

	put("devices/system/cpu/online", "0,x-7\n");
	put_cpu(0, "-1\n", "what\n");
	CU_ASSERT_EQUAL_FATAL(topology_read(root, &cpus), 1);
	is(&cpus[0], 0, 0, 0, 0, 0, CPU_PERFORMANCE);
	free(cpus);
	CU_ASSERT_EQUAL(topology_read("/nonexistent", &cpus), 0);
	free(cpus);
}

static void this_machine(void)
{
	struct cpu *cpus;

	CU_ASSERT_EQUAL((long)topology_read("/sys", &cpus), sysconf(_SC_NPROCESSORS_ONLN));
	free(cpus);
}

int main(void)
{
	CU_pSuite s;
	unsigned failures;

	if (!mkdtemp(root) || CU_initialize_registry())
		return 1;
	s = CU_add_suite("topology", NULL, NULL);
	CU_ADD_TEST(s, server);
	CU_ADD_TEST(s, hybrid);
	CU_ADD_TEST(s, odd);
	CU_ADD_TEST(s, this_machine);
	CU_basic_run_tests();
	failures = CU_get_number_of_failures();
	path_remove_tree(root, NULL);
	return failures > 0;
}
