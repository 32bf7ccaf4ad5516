/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"
#include "base/cleanup.h"
#include "workload.h"

#include <stdlib.h>
#include <string.h>

#define LIST_BATCH 64

/* An RPC that answers when its workload has got somewhere. */
struct waiting {
	struct workload_waiter waiter;
	struct grpc_call *call;
	struct workload *w; /* valid while the waiter is in its list */
};

static struct workload *find(struct grpc_call *call, const char *id)
{
	struct workload *w = workload_by_id(SERVICE_DAEMON(call), id);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!w) {
		err_set(&err, -ENOENT, "there is no workload with the id '%.100s'", id);
		grpc_call_finish_error(call, &err);
	}
	return w;
}

static void reply_done(struct grpc_call *call, enum workload_wait what, struct workload *w)
{
	PB(CreateWorkloadReply) created = PROTECT__CONTROL__V1__CREATE_WORKLOAD_REPLY__INIT;
	PB(StartWorkloadReply) started = PROTECT__CONTROL__V1__START_WORKLOAD_REPLY__INIT;
	PB(StopWorkloadReply) stopped = PROTECT__CONTROL__V1__STOP_WORKLOAD_REPLY__INIT;
	PB(DestroyWorkloadReply) destroyed = PROTECT__CONTROL__V1__DESTROY_WORKLOAD_REPLY__INIT;

	created.workload_id = w->pb->id;
	grpc_call_reply(call, what == WORKLOAD_WAIT_CREATED ? &created.base : what == WORKLOAD_WAIT_STARTED ? &started.base
			: what == WORKLOAD_WAIT_ENDED ? &stopped.base : &destroyed.base);
}

static void told(struct workload_waiter *x, struct workload *w, const struct edera_error *err)
{
	struct waiting *wait = x->user;

	grpc_call_set_user(wait->call, NULL);
	if (err)
		grpc_call_finish_error(wait->call, err);
	else
		reply_done(wait->call, x->what, w);
	free(wait);
}

void service_workload_wait_closed(struct grpc_call *call)
{
	struct waiting *wait = grpc_call_user(call);

	if (!wait)
		return;
	workload_unwait(wait->w, &wait->waiter);
	free(wait);
}

static void wait_for(struct grpc_call *call, struct workload *w, enum workload_wait what)
{
	struct waiting *wait = pb_xcalloc(1, sizeof *wait);

	*wait = (struct waiting){ .waiter = { .told = told, .user = wait, .what = what }, .call = call, .w = w };
	grpc_call_set_user(call, wait);
	workload_wait(w, &wait->waiter);
}

void service_create_workload(struct grpc_call *call, const ProtobufCMessage *m)
{
	const PB(CreateWorkloadRequest) *q = (const void *)m;
	struct edera_error err = EDERA_ERROR_INIT;
	PB(ResourceOrigin) *origin;
	struct workload *w;
	int r;

	if (!q->spec) {
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "the request holds no workload spec");
		return;
	}
	origin = service_origin(call);
	r = workload_create(SERVICE_DAEMON(call), q->spec, origin, &w, &err);
	pb_free(origin);
	if (r)
		grpc_call_finish_error(call, &err);
	else
		wait_for(call, w, WORKLOAD_WAIT_CREATED);
}

void service_start_workload(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct workload *w = find(call, ((const PB(StartWorkloadRequest) *)m)->workload_id);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!w)
		return;
	if (workload_state(w) == PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_RUNNING)
		reply_done(call, WORKLOAD_WAIT_STARTED, w);
	else if (workload_start(w, &err))
		grpc_call_finish_error(call, &err);
	else
		wait_for(call, w, WORKLOAD_WAIT_STARTED);
}

void service_stop_workload(struct grpc_call *call, const ProtobufCMessage *m)
{
	const PB(StopWorkloadRequest) *q = (const void *)m;
	struct workload *w = find(call, q->workload_id);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!w)
		return;
	if (workload_ended(w))
		reply_done(call, WORKLOAD_WAIT_ENDED, w);
	else if (workload_stop(w, q->timeout, &err))
		grpc_call_finish_error(call, &err);
	else
		wait_for(call, w, WORKLOAD_WAIT_ENDED);
}

void service_destroy_workload(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct workload *w = find(call, ((const PB(DestroyWorkloadRequest) *)m)->workload_id);

	if (!w)
		return;
	wait_for(call, w, WORKLOAD_WAIT_GONE);
	workload_destroy(w);
}

void service_get_workload(struct grpc_call *call, const ProtobufCMessage *m)
{
	PB(GetWorkloadReply) reply = PROTECT__CONTROL__V1__GET_WORKLOAD_REPLY__INIT;
	struct workload *w = find(call, ((const PB(GetWorkloadRequest) *)m)->workload_id);

	if (!w)
		return;
	reply.workload = w->pb;
	grpc_call_reply(call, &reply.base);
}

void service_list_workloads(struct grpc_call *call, const ProtobufCMessage *m)
{
	PB(ListWorkloadsReply) reply = PROTECT__CONTROL__V1__LIST_WORKLOADS_REPLY__INIT;
	struct workload *w = SERVICE_DAEMON(call)->workloads;
	PbWorkload *batch[LIST_BATCH];

	(void)m;
	reply.workloads = batch;
	do {
		for (reply.n_workloads = 0; w && reply.n_workloads < LIST_BATCH; w = w->next)
			batch[reply.n_workloads++] = w->pb;
		if (grpc_call_send(call, &reply.base)) {
			grpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "there are more workloads than one answer can hold");
			return;
		}
	} while (w);
	grpc_call_finish(call, RPC_OK, NULL);
}

void service_resolve_workload_id(struct grpc_call *call, const ProtobufCMessage *m)
{
	const char *name = ((const PB(ResolveWorkloadIdRequest) *)m)->name;
	PB(ResolveWorkloadIdReply) reply = PROTECT__CONTROL__V1__RESOLVE_WORKLOAD_ID_REPLY__INIT;
	struct workload *w = workload_by_name(SERVICE_DAEMON(call), name);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!w) {
		err_set(&err, -ENOENT, "unable to resolve workload '%.253s'", name);
		grpc_call_finish_error(call, &err);
		return;
	}
	reply.workload_id = w->pb->id;
	grpc_call_reply(call, &reply.base);
}

void service_resolve_workload_ids(struct grpc_call *call, const ProtobufCMessage *m)
{
	const char *name = ((const PB(ResolveWorkloadIdsRequest) *)m)->name;
	PB(ResolveWorkloadIdsReply) reply = PROTECT__CONTROL__V1__RESOLVE_WORKLOAD_IDS_REPLY__INIT;
	struct daemon *d = SERVICE_DAEMON(call);
	_free_ char **ids = NULL;
	size_t n = 0;

	for (struct workload *w = d->workloads; w; w = w->next)
		n++;
	ids = pb_xcalloc(n + 1, sizeof *ids);
	for (struct workload *w = d->workloads; w; w = w->next)
		if (!strcmp(w->pb->spec->name, name))
			ids[reply.n_workload_ids++] = w->pb->id;
	reply.workload_ids = ids;
	grpc_call_reply(call, &reply.base);
}
