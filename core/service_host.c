/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"
#include "base/cleanup.h"
#include "topology.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

struct addresses {
	char v4[INET_ADDRSTRLEN], v6[INET6_ADDRSTRLEN], mac[18];
};

/* The first interface that is up, is not loopback, and has an address. */
static void find_addresses(struct addresses *a)
{
	const char *chosen = NULL;
	struct ifaddrs *list;
	char path[128];
	FILE *f;

	memset(a, 0, sizeof *a);
	if (getifaddrs(&list) < 0)
		return;
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK) || (chosen && strcmp(chosen, i->ifa_name)))
			continue;
		if (i->ifa_addr->sa_family == AF_INET && !*a->v4) {
			inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, a->v4, sizeof a->v4);
			chosen = i->ifa_name;
		} else if (i->ifa_addr->sa_family == AF_INET6 && !*a->v6 && !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr)) {
			inet_ntop(AF_INET6, &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, a->v6, sizeof a->v6);
			chosen = i->ifa_name;
		}
	}
	if (chosen) {
		snprintf(path, sizeof path, "/sys/class/net/%s/address", chosen);
		f = fopen(path, "re");
		if (f) {
			if (fscanf(f, "%17[0-9a-f:]", a->mac) != 1)
				a->mac[0] = 0;
			fclose(f);
		}
	}
	freeifaddrs(list);
}

static uint64_t available_memory(void)
{
	unsigned long long kib = 0;
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

void service_host_status(struct grpc_call *call, const ProtobufCMessage *m)
{
	PB(GetHostStatusReply) reply = PROTECT__CONTROL__V1__GET_HOST_STATUS_REPLY__INIT;
	struct addresses a;

	(void)m;
	find_addresses(&a);
	reply.host_uuid = SERVICE_DAEMON(call)->host_uuid;
	reply.protect_version = (char *)PACKAGE_VERSION;
	reply.host_ipv4 = a.v4;
	reply.host_ipv6 = a.v6;
	reply.host_mac = a.mac;
	reply._hyp_free_mem_case = PROTECT__CONTROL__V1__GET_HOST_STATUS_REPLY___HYP_FREE_MEM_HYP_FREE_MEM;
	reply.hyp_free_mem = available_memory();
	grpc_call_reply(call, &reply.base);
}

void service_host_cpu_topology(struct grpc_call *call, const ProtobufCMessage *m)
{
	static const PB(HostCpuTopologyClass) classes[] = {
		[CPU_STANDARD] = PROTECT__CONTROL__V1__HOST_CPU_TOPOLOGY_CLASS__HOST_CPU_TOPOLOGY_CLASS_STANDARD,
		[CPU_PERFORMANCE] = PROTECT__CONTROL__V1__HOST_CPU_TOPOLOGY_CLASS__HOST_CPU_TOPOLOGY_CLASS_PERFORMANCE,
		[CPU_EFFICIENCY] = PROTECT__CONTROL__V1__HOST_CPU_TOPOLOGY_CLASS__HOST_CPU_TOPOLOGY_CLASS_EFFICIENCY,
	};
	PB(GetHostCpuTopologyReply) reply = PROTECT__CONTROL__V1__GET_HOST_CPU_TOPOLOGY_REPLY__INIT;
	_free_ PB(HostCpuTopologyInfo) *infos = NULL;
	_free_ PB(HostCpuTopologyInfo) **list = NULL;
	_free_ struct cpu *cpus = NULL;

	(void)m;
	reply.n_cpus = topology_read("/sys", &cpus);
	infos = pb_xcalloc(reply.n_cpus + 1, sizeof *infos);
	list = pb_xcalloc(reply.n_cpus + 1, sizeof(void *));
	for (size_t i = 0; i < reply.n_cpus; i++) {
		protect__control__v1__host_cpu_topology_info__init(&infos[i]);
		infos[i].core = cpus[i].core;
		infos[i].socket = cpus[i].socket;
		infos[i].node = cpus[i].node;
		infos[i].thread = cpus[i].thread;
		infos[i].class_ = classes[cpus[i].class];
		list[i] = &infos[i];
	}
	reply.cpus = list;
	grpc_call_reply(call, &reply.base);
}

/* Neither can be configured or made, so there are none. */
void service_list_devices(struct grpc_call *call, const ProtobufCMessage *m)
{
	PB(ListDevicesReply) reply = PROTECT__CONTROL__V1__LIST_DEVICES_REPLY__INIT;

	(void)m;
	grpc_call_reply(call, &reply.base);
}

void service_list_network_reservations(struct grpc_call *call, const ProtobufCMessage *m)
{
	PB(ListNetworkReservationsReply) reply = PROTECT__CONTROL__V1__LIST_NETWORK_RESERVATIONS_REPLY__INIT;

	(void)m;
	grpc_call_send(call, &reply.base);
	grpc_call_finish(call, RPC_OK, NULL);
}
