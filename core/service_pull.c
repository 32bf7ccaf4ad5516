/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "service_auth.h"
#include "service_job.h"
#include "variants.h"

#include <stdlib.h>
#include <string.h>

struct progress_post {
	struct service_job *job;
	PB(PullImageReply) *reply;
};

static void send_progress(void *user)
{
	struct progress_post *p = user;

	/* A client that does not keep up misses steps of the progress, nothing else. */
	if (p->job->call && !p->job->ended && grpc_call_writable(p->job->call))
		grpc_call_send(p->job->call, &p->reply->base);
	pb_free(p->reply);
	free(p);
}

static PB(OciImageProgressIndication) *bar(uint64_t current, uint64_t total)
{
	PB(OciImageProgressIndication) *i = pb_xcalloc(1, sizeof *i);

	protect__control__v1__oci_image_progress_indication__init(i);
	i->indication_case = PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_INDICATION__INDICATION_BAR;
	i->bar = pb_xcalloc(1, sizeof *i->bar);
	protect__control__v1__oci_image_progress_indication_bar__init(i->bar);
	i->bar->current = current;
	i->bar->total = total;
	i->bar->is_bytes = true;
	return i;
}

PB(OciImageProgress) *service_image_progress(const struct edera_pull_progress *p)
{
	PB(OciImageProgress) *g = pb_xcalloc(1, sizeof *g);

	protect__control__v1__oci_image_progress__init(g);
	g->phase = p->phase;
	g->indication = bar(p->current, p->total);
	g->layers = pb_xcalloc(p->n_layers + 1, sizeof *g->layers);
	for (uint32_t i = 0; i < p->n_layers; i++) {
		const struct edera_pull_layer *l = (const void *)((const char *)p->layers + (size_t)i * p->layer_size);
		PB(OciImageProgressLayer) *o = pb_xcalloc(1, sizeof *o);

		protect__control__v1__oci_image_progress_layer__init(o);
		pb_set(&o->id, l->id);
		o->phase = l->phase;
		o->indication = bar(l->current, l->total);
		g->layers[g->n_layers++] = o;
	}
	return g;
}

static void progress(void *user, const struct edera_pull_progress *p)
{
	struct progress_post *post = pb_xcalloc(1, sizeof *post);

	post->job = user;
	post->reply = pb_xcalloc(1, sizeof *post->reply);
	protect__control__v1__pull_image_reply__init(post->reply);
	post->reply->progress = service_image_progress(p);
	worker_post(post->job->d->workers, send_progress, post);
}

static int read_metadata(struct service_job *j, const struct edera_call *call)
{
	int r = images_read(j->d->plugins, call, j->digest, j->format, EDERA_IMAGE_FILE_MANIFEST, &j->manifest, &j->err);

	return r ? r : images_read(j->d->plugins, call, j->digest, j->format, EDERA_IMAGE_FILE_CONFIG, &j->config, &j->err);
}

static void pull_work(void *user, const struct edera_call *call)
{
	struct service_job *j = user;
	const PB(PullImageRequest) *q = j->pull;
	struct edera_pull pull = {
		.size = sizeof pull, .format = j->format, .flags = (q->overwrite_cache ? EDERA_PULL_OVERWRITE : 0) | (q->update ? EDERA_PULL_UPDATE : 0),
		.progress = progress, .user = j,
	};

	if (q->source_case == PROTECT__CONTROL__V1__PULL_IMAGE_REQUEST__SOURCE_KERNEL_VARIANT)
		j->status = variants_reference(j->d->plugins, call, q->kernel_variant, &j->reference, &j->err);
	if (!j->status && q->auth)
		j->status = service_auth_json(q->auth, j->reference, &j->auth, &j->err);
	pull.reference = j->reference;
	pull.auth_json = j->auth;
	if (!j->status)
		j->status = images_pull(j->d->plugins, call, &pull, j->digest, &j->err);
	if (!j->status && q->want_metadata)
		j->status = read_metadata(j, call);
}

static void pull_done(void *user, bool abandoned)
{
	struct service_job *j = user;
	PB(PullImageReply) reply = PROTECT__CONTROL__V1__PULL_IMAGE_REPLY__INIT;
	PB(OciImageProgress) complete = PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS__INIT;
	PbImageSpec spec = PROTECT__CONTROL__V1__OCI_IMAGE_SPEC__INIT;
	PB(OciImageMetadata) meta = PROTECT__CONTROL__V1__OCI_IMAGE_METADATA__INIT;

	if (!abandoned && j->status)
		log_warning("pull failed", "image", j->reference, "error", j->err.msg, NULL);
	if (!service_job_end(j, abandoned))
		return;
	complete.phase = PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_PHASE__OCI_IMAGE_PROGRESS_PHASE_COMPLETE;
	spec.digest = j->digest;
	spec.format = j->format;
	meta.manifest = (ProtobufCBinaryData){ j->manifest.len, j->manifest.data };
	meta.config = (ProtobufCBinaryData){ j->config.len, j->config.data };
	reply.progress = &complete;
	reply.spec = &spec;
	reply.metadata = j->pull->want_metadata ? &meta : NULL;
	grpc_call_reply(j->call, &reply.base);
}

static const struct worker_ops pull_ops = { pull_work, pull_done, service_job_release };

void service_pull_image(struct grpc_call *call, const ProtobufCMessage *m)
{
	const PB(PullImageRequest) *q = (const void *)m;
	bool variant = q->source_case == PROTECT__CONTROL__V1__PULL_IMAGE_REQUEST__SOURCE_KERNEL_VARIANT;
	struct service_job *j;

	if (!variant && (q->source_case != PROTECT__CONTROL__V1__PULL_IMAGE_REQUEST__SOURCE_IMAGE || !*q->image)) {
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "the request names neither an image nor a kernel variant");
		return;
	}
	j = service_job_begin(call, &pull_ops);
	j->pull = pb_copy(q);
	j->format = q->format ? q->format : variant ? EDERA_IMAGE_DIRECTORY : EDERA_IMAGE_SQUASHFS;
	if (!variant)
		j->reference = strdup(q->image);
	service_job_submit(j, (uint64_t)conf_int(j->d->conf, "oci.pull-timeout-seconds") * 1000);
}
