/* SPDX-License-Identifier: Apache-2.0 */
#include "service_job.h"
#include "variants.h"

static void variants_work(void *user, const struct edera_call *call)
{
	struct service_job *j = user;
	PB(ListKernelVariantsReply) *reply = pb_xcalloc(1, sizeof *reply);
	struct variants list;

	protect__control__v1__list_kernel_variants_reply__init(reply);
	j->reply = &reply->base;
	j->status = variants_collect(j->d->plugins, call, 0, &list, &j->err);
	if (j->status)
		return;
	reply->variants = pb_xcalloc(list.n + 1, sizeof *reply->variants);
	for (size_t i = 0; i < list.n; i++) {
		PB(KernelVariant) *v = reply->variants[reply->n_variants++] = pb_xcalloc(1, sizeof *v);

		protect__control__v1__kernel_variant__init(v);
		v->name = service_copy(list.items[i].name);
		v->image = service_copy(list.items[i].image);
	}
	variants_free(&list);
}

static const struct worker_ops variants_ops = { variants_work, service_job_reply, service_job_release };

void service_list_kernel_variants(struct grpc_call *call, const ProtobufCMessage *m)
{
	(void)m;
	service_job_submit(service_job_begin(call, &variants_ops), SERVICE_QUERY_TIMEOUT_MS);
}

static void node_variants_work(void *user, const struct edera_call *call)
{
	struct service_job *j = user;
	Edera__Node__V1__ListKernelVariantsReply *reply = pb_xcalloc(1, sizeof *reply);
	struct variants list;

	edera__node__v1__list_kernel_variants_reply__init(reply);
	j->reply = &reply->base;
	j->status = variants_collect(j->d->plugins, call, j->flags, &list, &j->err);
	if (j->status)
		return;
	reply->variants = pb_xcalloc(list.n + 1, sizeof *reply->variants);
	for (size_t i = 0; i < list.n; i++) {
		Edera__Node__V1__KernelVariant *v = reply->variants[reply->n_variants++] = pb_xcalloc(1, sizeof *v);

		edera__node__v1__kernel_variant__init(v);
		v->name = service_copy(list.items[i].name);
		v->image = service_copy(list.items[i].image);
		v->source = service_copy(list.items[i].source);
		v->digest = service_copy(list.items[i].digest);
		v->version = service_copy(list.items[i].version);
	}
	variants_free(&list);
}

static const struct worker_ops node_variants_ops = { node_variants_work, service_job_reply, service_job_release };

void service_node_list_kernel_variants(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct service_job *j = service_job_begin(call, &node_variants_ops);

	j->flags = ((const Edera__Node__V1__ListKernelVariantsRequest *)m)->refresh ? EDERA_VARIANT_REFRESH : 0;
	service_job_submit(j, SERVICE_QUERY_TIMEOUT_MS);
}
