/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "base/cleanup.h"
#include "workload.h"
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static uint64_t meminfo(const char *text, const char *key)
{
	const char *p = text ? strstr(text, key) : NULL;

	return p ? strtoull(p + strlen(key), NULL, 10) << 10 : 0;
}

static void cpu_times(Edera__Agent__V1__MetricsReply *r)
{
	_buf_ struct buf b = BUF_INIT;
	unsigned long long user, nice, system, idle, iowait, irq, softirq;
	uint64_t tick = 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);

	if (path_read_file("/proc/stat", 1 << 20, &b, NULL) || !b.data ||
	    sscanf((char *)b.data, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait, &irq, &softirq) != 7)
		return;
	r->cpu_user_us = (user + nice) * tick;
	r->cpu_system_us = (system + irq + softirq) * tick;
	r->cpu_idle_us = (idle + iowait) * tick;
}

void metrics_reply(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	Edera__Agent__V1__MetricsReply r = EDERA__AGENT__V1__METRICS_REPLY__INIT;
	_buf_ struct buf b = BUF_INIT;
	struct sysinfo si;

	if (!path_read_file("/proc/meminfo", 64 << 10, &b, NULL)) {
		r.memory_total = meminfo((char *)b.data, "MemTotal:");
		r.memory_available = meminfo((char *)b.data, "MemAvailable:");
		r.memory_free = meminfo((char *)b.data, "MemFree:");
	}
	if (!sysinfo(&si)) {
		r.uptime_ms = (uint64_t)si.uptime * 1000;
		r.processes = si.procs;
		r.load_1m_milli = (uint64_t)si.loads[0] * 1000 >> SI_LOAD_SHIFT;
	}
	cpu_times(&r);
	workload_metrics(a, &r);
	caller_reply(a, from, &r.base);
	for (size_t i = 0; i < r.n_workloads; i++)
		free(r.workloads[i]);
	free(r.workloads);
}
