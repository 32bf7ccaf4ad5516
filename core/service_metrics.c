/* SPDX-License-Identifier: Apache-2.0 */
/* ReadZoneMetrics: what the zone's agent measures, as a tree. */
#include "service.h"
#include "workload.h"
#include "zone.h"

#include <stdlib.h>

#define METRICS_TIMEOUT_MS 10000
#define FORMAT(name) PROTECT__CONTROL__V1__METRIC_FORMAT__METRIC_FORMAT_##name

typedef PB(MetricNode) Node;

struct reading {
	struct grpc_call *call; /* NULL once the client has gone */
	struct daemon *d;
};

static Node *new_node(const char *name)
{
	Node *n = pb_xcalloc(1, sizeof *n);

	protect__control__v1__metric_node__init(n);
	pb_set(&n->name, name);
	return n;
}

static Node *group(Node *parent, const char *name)
{
	Node *n = new_node(name);

	parent->children = reallocarray(parent->children, parent->n_children + 1, sizeof *parent->children);
	if (!parent->children)
		abort();
	parent->children[parent->n_children++] = n;
	return n;
}

static void metric(Node *parent, const char *name, PB(MetricFormat) format, double value)
{
	Node *n = group(parent, name);

	n->format = format;
	n->value = pb_xcalloc(1, sizeof *n->value);
	google__protobuf__value__init(n->value);
	n->value->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE;
	n->value->number_value = value;
}

static double seconds(uint64_t us) { return (double)us / 1e6; }

static void add_workloads(Node *root, const struct daemon *d, const Edera__Agent__V1__MetricsReply *m)
{
	Node *all = m->n_workloads ? group(root, "workloads") : NULL;

	for (size_t i = 0; i < m->n_workloads; i++) {
		const struct workload *w = workload_by_id(d, m->workloads[i]->id);
		Node *one = group(all, w ? w->pb->spec->name : m->workloads[i]->id);

		metric(one, "memory", FORMAT(BYTES), (double)m->workloads[i]->memory);
		metric(one, "cpu", FORMAT(DURATION_SECONDS), seconds(m->workloads[i]->cpu_us));
		metric(one, "processes", FORMAT(INTEGER), m->workloads[i]->processes);
	}
}

static Node *tree(const struct daemon *d, const Edera__Agent__V1__MetricsReply *m)
{
	Node *root = new_node("zone"), *memory = group(root, "memory"), *cpu = group(root, "cpu");

	metric(memory, "total", FORMAT(BYTES), (double)m->memory_total);
	metric(memory, "available", FORMAT(BYTES), (double)m->memory_available);
	metric(memory, "free", FORMAT(BYTES), (double)m->memory_free);
	metric(cpu, "user", FORMAT(DURATION_SECONDS), seconds(m->cpu_user_us));
	metric(cpu, "system", FORMAT(DURATION_SECONDS), seconds(m->cpu_system_us));
	metric(cpu, "idle", FORMAT(DURATION_SECONDS), seconds(m->cpu_idle_us));
	metric(cpu, "load", FORMAT(UNKNOWN), (double)m->load_1m_milli / 1e3);
	metric(root, "uptime", FORMAT(DURATION_SECONDS), (double)m->uptime_ms / 1e3);
	metric(root, "processes", FORMAT(INTEGER), m->processes);
	add_workloads(root, d, m);
	return root;
}

static void measured(void *user, const ProtobufCMessage *answer, const struct edera_error *err)
{
	PB(ReadZoneMetricsReply) reply = PROTECT__CONTROL__V1__READ_ZONE_METRICS_REPLY__INIT;
	struct reading *r = user;

	if (r->call) {
		grpc_call_set_user(r->call, NULL);
		if (err) {
			grpc_call_finish_error(r->call, err);
		} else {
			reply.root = tree(r->d, (const Edera__Agent__V1__MetricsReply *)answer);
			grpc_call_reply(r->call, &reply.base);
			pb_free(reply.root);
		}
	}
	free(r);
}

void service_read_zone_metrics(struct grpc_call *call, const ProtobufCMessage *m)
{
	Edera__Agent__V1__MetricsRequest q = EDERA__AGENT__V1__METRICS_REQUEST__INIT;
	const char *id = ((const PB(ReadZoneMetricsRequest) *)m)->zone_id;
	struct edera_error err = EDERA_ERROR_INIT;
	struct daemon *d = SERVICE_DAEMON(call);
	struct zone *z = zone_by_id(d, id);
	struct reading *r;

	if (!z)
		err_set(&err, -ENOENT, "there is no zone with the id '%.100s'", id);
	else if (!zone_ready(z))
		zone_not_ready(z, &err);
	if (err.code) {
		grpc_call_finish_error(call, &err);
		return;
	}
	r = pb_xcalloc(1, sizeof *r);
	*r = (struct reading){ call, d };
	grpc_call_set_user(call, r);
	agent_call(z->agent, "Metrics", &q.base, METRICS_TIMEOUT_MS, measured, r);
}

void service_read_zone_metrics_closed(struct grpc_call *call)
{
	struct reading *r = grpc_call_user(call);

	if (r)
		r->call = NULL;
}
