/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "service_image.h"
#include "workload.h"

#include <stdlib.h>
#include <string.h>

static char **copy_names(const struct edera_image_info *i)
{
	char **names = pb_xcalloc(i->n_names + 1, sizeof *names);

	for (size_t k = 0; k < i->n_names; k++)
		names[k] = service_copy(i->names[k]);
	return names;
}

static void *grow(void *array, size_t n)
{
	void *p = reallocarray(array, n + 1, sizeof(void *));

	if (!p)
		abort();
	return p;
}

static int add_public(void *user, const struct edera_image_info *i)
{
	PB(ListImagesReply) *reply = user;
	PB(OciImageInfo) *o = pb_xcalloc(1, sizeof *o);

	protect__control__v1__oci_image_info__init(o);
	o->digest = service_copy(i->digest);
	o->format = i->format;
	o->n_names = i->n_names;
	o->names = copy_names(i);
	if (*i->source_digest) {
		o->_source_digest_case = PROTECT__CONTROL__V1__OCI_IMAGE_INFO___SOURCE_DIGEST_SOURCE_DIGEST;
		o->source_digest = service_copy(i->source_digest);
	}
	reply->images = grow(reply->images, reply->n_images);
	reply->images[reply->n_images++] = o;
	return 0;
}

static void list_work(void *user, const struct edera_call *call)
{
	struct service_job *j = user;
	PB(ListImagesReply) *reply = pb_xcalloc(1, sizeof *reply);

	protect__control__v1__list_images_reply__init(reply);
	j->reply = &reply->base;
	j->status = images_list(j->d->plugins, call, add_public, reply, &j->err);
}

static const struct worker_ops list_ops = { list_work, service_job_reply, service_job_release };

void service_list_images(struct grpc_call *call, const ProtobufCMessage *m)
{
	(void)m;
	service_job_submit(service_job_begin(call, &list_ops), SERVICE_QUERY_TIMEOUT_MS);
}

static int add_node(void *user, const struct edera_image_info *i)
{
	Edera__Node__V1__ListImagesReply *reply = user;
	Edera__Node__V1__Image *o = pb_xcalloc(1, sizeof *o);

	edera__node__v1__image__init(o);
	o->digest = service_copy(i->digest);
	o->source_digest = service_copy(i->source_digest);
	o->format = service_copy(images_format_name(i->format));
	o->n_names = i->n_names;
	o->names = copy_names(i);
	o->bytes = i->bytes;
	if (i->size >= offsetof(struct edera_image_info, layers_bytes) + sizeof i->layers_bytes)
		o->layers_bytes = i->layers_bytes;
	o->created = i->created;
	reply->images = grow(reply->images, reply->n_images);
	reply->images[reply->n_images++] = o;
	return 0;
}

uint32_t service_image_format(const char *name)
{
	for (uint32_t f = EDERA_IMAGE_SQUASHFS; f <= EDERA_IMAGE_DIRECTORY; f++)
		if (!strcmp(name, images_format_name(f)))
			return f;
	return 0;
}

void service_image_list_work(void *user, const struct edera_call *call)
{
	struct service_job *j = user;
	Edera__Node__V1__ListImagesReply *reply = pb_xcalloc(1, sizeof *reply);

	edera__node__v1__list_images_reply__init(reply);
	j->reply = &reply->base;
	j->status = images_list(j->d->plugins, call, add_node, reply, &j->err);
}

void service_image_mark_used(struct daemon *d, Edera__Node__V1__ListImagesReply *reply)
{
	for (size_t i = 0; i < reply->n_images; i++) {
		Edera__Node__V1__Image *o = reply->images[i];

		o->used_by = workload_image_users(d, o->digest, service_image_format(o->format), &o->n_used_by);
		o->_in_use_case = EDERA__NODE__V1__IMAGE___IN_USE_IN_USE;
		o->in_use = o->n_used_by > 0;
	}
}

static void node_list_done(void *user, bool abandoned)
{
	struct service_job *j = user;

	if (!service_job_end(j, abandoned))
		return;
	service_image_mark_used(j->d, (Edera__Node__V1__ListImagesReply *)j->reply);
	grpc_call_reply(j->call, j->reply);
}

static const struct worker_ops node_list_ops = { service_image_list_work, node_list_done, service_job_release };

void service_node_list_images(struct grpc_call *call, const ProtobufCMessage *m)
{
	(void)m;
	service_job_submit(service_job_begin(call, &node_list_ops), SERVICE_QUERY_TIMEOUT_MS);
}

/* ---- remove ---- */

static void remove_work(void *user, const struct edera_call *call)
{
	struct service_job *j = user;

	/* Without a format: in whichever it is there. */
	for (uint32_t f = j->format ? j->format : EDERA_IMAGE_SQUASHFS; !j->status && f <= (j->format ? j->format : EDERA_IMAGE_DIRECTORY); f++) {
		bool removed = false;

		j->status = images_remove(j->d->plugins, call, j->digest, f, &removed, &j->err);
		j->removed |= removed;
	}
}

static void remove_done(void *user, bool abandoned)
{
	struct service_job *j = user;
	PB(RemoveImageReply) reply = PROTECT__CONTROL__V1__REMOVE_IMAGE_REPLY__INIT;

	if (!service_job_end(j, abandoned))
		return;
	reply.removed = j->removed;
	grpc_call_reply(j->call, &reply.base);
}

static const struct worker_ops remove_ops = { remove_work, remove_done, service_job_release };

/* True, and the call has its answer, if somebody needs that image. */
static bool refuse_used(struct daemon *d, struct grpc_call *call, const char *digest, uint32_t format)
{
	struct buf message _buf_ = BUF_INIT;
	size_t n;
	char **users = workload_image_users(d, digest, format, &n);

	buf_printf(&message, "the image %.19s (%s) is in use by ", digest, images_format_name(format));
	for (size_t i = 0; i < n; i++) {
		if (i < 5)
			buf_printf(&message, "%sthe %s", i ? ", " : "", users[i]);
		free(users[i]);
	}
	free(users);
	if (n > 5)
		buf_printf(&message, " and %zu more", n - 5);
	buf_printf(&message, "; destroy %s first", n == 1 ? "it" : "them");
	if (n)
		grpc_call_finish(call, RPC_FAILED_PRECONDITION, (const char *)message.data);
	return n > 0;
}

void service_remove_image(struct grpc_call *call, const ProtobufCMessage *m)
{
	const PB(RemoveImageRequest) *q = (const void *)m;
	struct daemon *d = SERVICE_DAEMON(call);
	struct service_job *j;

	if (!text_valid_digest(q->digest)) {
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "an image is removed by its digest (sha256:...); `protect image list` shows them");
		return;
	}
	for (uint32_t f = EDERA_IMAGE_SQUASHFS; f <= EDERA_IMAGE_DIRECTORY; f++)
		if ((!q->format || q->format == f) && refuse_used(d, call, q->digest, f))
			return;
	j = service_job_begin(call, &remove_ops);
	snprintf(j->digest, sizeof j->digest, "%s", q->digest);
	j->format = q->format;
	service_job_submit(j, SERVICE_QUERY_TIMEOUT_MS);
}
