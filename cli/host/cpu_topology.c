/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host/host.h"
#include "base/cleanup.h"

#include <inttypes.h>

struct args {
	struct list_args list;
};

typedef Protect__Control__V1__HostCpuTopologyInfo Cpu;

/* A CPU's number is its place in the answer; the context is the answer. */
static void cell_id(const void *m, const void *context, struct buf *b)
{
	const Protect__Control__V1__GetHostCpuTopologyReply *reply = context;

	for (size_t i = 0; i < reply->n_cpus; i++)
		if (reply->cpus[i] == m)
			buf_printf(b, "%zu", i);
}

static void cell_node(const void *m, const void *context, struct buf *b)
{
	buf_printf(b, "%" PRIu32, ((const Cpu *)m)->node);
}

static void cell_socket(const void *m, const void *context, struct buf *b)
{
	buf_printf(b, "%" PRIu32, ((const Cpu *)m)->socket);
}

static void cell_core(const void *m, const void *context, struct buf *b)
{
	buf_printf(b, "%" PRIu32, ((const Cpu *)m)->core);
}

static void cell_thread(const void *m, const void *context, struct buf *b)
{
	buf_printf(b, "%" PRIu32, ((const Cpu *)m)->thread);
}

static void cell_class(const void *m, const void *context, struct buf *b)
{
	format_enum_word(b, &protect__control__v1__host_cpu_topology_class__descriptor, (int)((const Cpu *)m)->class_);
}

static const struct column columns[] = {
	{ .title = "id", .cell = cell_id },         { .title = "node", .cell = cell_node },     { .title = "socket", .cell = cell_socket },
	{ .title = "core", .cell = cell_core },     { .title = "thread", .cell = cell_thread }, { .title = "class", .cell = cell_class },
};

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__GetHostCpuTopologyRequest request = PROTECT__CONTROL__V1__GET_HOST_CPU_TOPOLOGY_REQUEST__INIT;
	Protect__Control__V1__GetHostCpuTopologyReply *reply _message_ = NULL;
	struct list_view view = { columns, ARRAY_SIZE(columns), NULL, 0, "the daemon knows of no CPUs", NULL };
	struct list list _list_ = { 0 };
	int r = cli_call(cli, CONTROL, "GetHostCpuTopology", &request, &reply, err);

	if (r)
		return r;
	for (size_t i = 0; i < reply->n_cpus; i++)
		list_add(&list, reply->cpus[i]);
	view.context = reply;
	return list_print(&list, &a->list, &view, &protect__control__v1__host_cpu_topology_info__descriptor);
}

static const struct opt options[] = { LIST_OUTPUT(struct args), LIST_SELECTOR(struct args) };

const struct command verb_host_cpu_topology = {
	.name = "cpu-topology", .summary = "List the CPUs of this host and how they belong together", OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
