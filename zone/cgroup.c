/* SPDX-License-Identifier: Apache-2.0 */
/* The agent stays in the root group; what runs for others is in groups that together cannot take all memory or all processes. */
#include "agent.h"

#include "base/cleanup.h"
#include "base/text.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
#define RESERVE_MIN (12ull << 20) /* bytes kept for the agent, crun's own work and the kernel */
#define RESERVE_PART 32           /* and at least this part of what is there */

static int put(const char *dir, const char *file, const char *value)
{
	char path[PATH_CAP];
	_close_ int fd = -1;

	if (path_format(path, NULL, "%s/%s", dir, file))
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

uint64_t cgroup_number(const char *dir, const char *file, const char *key)
{
	_buf_ struct buf b = BUF_INIT;
	char path[PATH_CAP];
	const char *p;

	if (path_format(path, NULL, "%s/%s", dir, file) || path_read_file(path, 64 << 10, &b, NULL) || !b.data)
		return 0;
	p = (char *)b.data;
	for (size_t n = key ? strlen(key) : 0; key && (strncmp(p, key, n) || p[n] != ' ');) {
		p = strchr(p, '\n');
		if (!p)
			return 0;
		p++;
	}
	return strtoull(key ? p + strlen(key) : p, NULL, 10);
}

static uint64_t meminfo_available(void)
{
	_buf_ struct buf b = BUF_INIT;
	const char *p;

	if (path_read_file("/proc/meminfo", 64 << 10, &b, NULL) || !b.data)
		return 0;
	p = strstr((char *)b.data, "MemAvailable:");
	return p ? strtoull(p + 13, NULL, 10) << 10 : 0;
}

static void limit(struct agent *a, const char *dir, uint64_t memory, uint64_t pids, const char *weight)
{
	char text[32];

	if (mkdir(dir, 0755) < 0 && errno != EEXIST) {
		agent_warn(a, "cannot make the control group '%s': %s", dir, strerror(errno));
		return;
	}
	snprintf(text, sizeof text, "%llu", (unsigned long long)memory);
	if (memory && put(dir, "memory.max", text))
		agent_warn(a, "cannot limit the memory of '%s'", dir);
	snprintf(text, sizeof text, "%llu", (unsigned long long)pids);
	if (pids && put(dir, "pids.max", text))
		agent_warn(a, "cannot limit the processes of '%s'", dir);
	put(dir, "cpu.weight", weight);
}

void cgroup_setup(struct agent *a)
{
	static const char *const controllers[] = { "+cpu", "+memory", "+pids", "+io", "+cpuset" };
	uint64_t available = meminfo_available(), reserve = available / RESERVE_PART, threads = 0, pid_max = 0;

	if (access(ROOT "/cgroup.controllers", R_OK) < 0) {
		agent_warn(a, "this kernel has no cgroup2: workloads are not limited");
		return;
	}
	a->cgroups = true;
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
		put(ROOT, "cgroup.subtree_control", controllers[i]);
	if (reserve < RESERVE_MIN)
		reserve = RESERVE_MIN;
	available = available > 2 * reserve ? available - reserve : 0;
	threads = cgroup_number("/proc/sys/kernel", "threads-max", NULL);
	pid_max = cgroup_number("/proc/sys/kernel", "pid_max", NULL);
	if (pid_max && (!threads || pid_max < threads))
		threads = pid_max;
	/* A workload that forks without end still leaves room for somebody who comes to look at it. */
	limit(a, CGROUP_WORKLOADS, available, threads / 4 * 3, "100");
	limit(a, CGROUP_EXEC, available, threads / 8, "200");
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
		put(CGROUP_WORKLOADS, "cgroup.subtree_control", controllers[i]);
}
