/* SPDX-License-Identifier: Apache-2.0 */
/* ImportImage: an archive is received into a file without a name and given to the image store.
 *
 * probing    the store says whether it has the image, and whether it could import it
 * receiving  chunks go to the upload
 * working    the store imports
 * following  another call imports the same; what this client sends is passed over until that one ends */
#include "service_job.h"
#include "upload.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/reference.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum import_state { PROBING, RECEIVING, WORKING, FOLLOWING, ENDED };

struct import {
	struct import *next;
	struct daemon *d;
	struct grpc_call *call;   /* NULL once the client has gone */
	enum import_state state;
	unsigned refs;            /* the call, a job, the timer, progress on its way */
	bool overwrite, want_metadata, accepted;
	char name[REFERENCE_CAP]; /* canonical, or "" */
	char digest[EDERA_DIGEST_MAX];
	uint32_t format;
	struct import *leader;    /* of one that follows */
	struct buf first;         /* chunk of the first message, while probing */
	bool last;                /* the last chunk is here */
	bool paused;
	struct upload *upload;
	int archive_fd;           /* the upload's */
	uv_timer_t silence;
	struct worker_job *job;
	/* Of the job. */
	int status;
	struct edera_error err;
	char found[EDERA_DIGEST_MAX];
	struct buf manifest, config;
};

static void unref(struct import *i)
{
	if (--i->refs)
		return;
	upload_free(i->upload);
	buf_free(&i->first);
	buf_free(&i->manifest);
	buf_free(&i->config);
	free(i);
}

static void timer_closed(uv_handle_t *h) { unref(h->data); }

static void follow_end(struct import *leader, const struct edera_error *err);

/* Out of the list, and everything it waits for is given up. */
static void leave(struct import *i, const struct edera_error *err)
{
	if (i->state == ENDED)
		return;
	i->state = ENDED;
	for (struct import **at = &i->d->imports; *at; at = &(*at)->next)
		if (*at == i) {
			*at = i->next;
			break;
		}
	uv_close((uv_handle_t *)&i->silence, timer_closed);
	if (i->job)
		worker_cancel(i->job);
	follow_end(i, err);
}

static void fail(struct import *i, const struct edera_error *err)
{
	struct edera_error copy = *err;

	if (i->state == ENDED)
		return;
	log_warning("import failed", "image", i->name, "error", copy.msg, NULL);
	leave(i, &copy);
	if (i->call)
		grpc_call_finish_error(i->call, &copy);
}

static void __attribute__((format(printf, 3, 4))) fail_with(struct import *i, int code, const char *fmt, ...)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	err_set(&err, code, "%s", text);
	fail(i, &err);
}

static void send_reply(struct import *i, PB(ImportImageReply) *reply)
{
	reply->accepted = i->accepted;
	if (i->call)
		grpc_call_send(i->call, &reply->base);
}

static void succeed(struct import *i)
{
	PB(ImportImageReply) reply = PROTECT__CONTROL__V1__IMPORT_IMAGE_REPLY__INIT;
	PB(OciImageProgress) complete = PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS__INIT;
	PbImageSpec spec = PROTECT__CONTROL__V1__OCI_IMAGE_SPEC__INIT;
	PB(OciImageMetadata) meta = PROTECT__CONTROL__V1__OCI_IMAGE_METADATA__INIT;

	complete.phase = PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_PHASE__OCI_IMAGE_PROGRESS_PHASE_COMPLETE;
	spec.digest = i->found;
	spec.format = i->format;
	meta.manifest = (ProtobufCBinaryData){ i->manifest.len, i->manifest.data };
	meta.config = (ProtobufCBinaryData){ i->config.len, i->config.data };
	reply.progress = &complete;
	reply.spec = &spec;
	reply.metadata = i->want_metadata ? &meta : NULL;
	reply.accepted = i->accepted;
	leave(i, NULL);
	if (i->call)
		grpc_call_reply(i->call, &reply.base);
}

/* ---- the store's part ---- */

struct progress_post {
	struct import *import;
	PB(ImportImageReply) *reply;
};

static void send_progress(void *user)
{
	struct progress_post *p = user;

	/* A client that does not keep up misses steps of the progress, nothing else. */
	if (p->import->state == WORKING && p->import->call && grpc_call_writable(p->import->call))
		send_reply(p->import, p->reply);
	pb_free(p->reply);
	free(p);
}

/* On the worker; the job, which ends after this was delivered, keeps the import. */
static void progress(void *user, const struct edera_pull_progress *p)
{
	struct progress_post *post = pb_xcalloc(1, sizeof *post);

	post->import = user;
	post->reply = pb_xcalloc(1, sizeof *post->reply);
	protect__control__v1__import_image_reply__init(post->reply);
	post->reply->progress = service_image_progress(p);
	worker_post(post->import->d->workers, send_progress, post);
}

static void work(void *user, const struct edera_call *call)
{
	struct import *i = user;
	struct edera_import import = {
		.size = sizeof import, .format = i->format, .flags = i->overwrite ? EDERA_PULL_OVERWRITE : 0, .archive_fd = i->archive_fd,
		.name = i->name, .digest = i->digest, .progress = i->archive_fd >= 0 ? progress : NULL, .user = i,
	};

	i->status = images_import(i->d->plugins, call, &import, i->found, &i->err);
	if (!i->status && i->want_metadata)
		i->status = images_read(i->d->plugins, call, i->found, i->format, EDERA_IMAGE_FILE_MANIFEST, &i->manifest, &i->err);
	if (!i->status && i->want_metadata)
		i->status = images_read(i->d->plugins, call, i->found, i->format, EDERA_IMAGE_FILE_CONFIG, &i->config, &i->err);
}

static void go_ahead(struct import *i);

static void done(void *user, bool abandoned)
{
	struct import *i = user;

	i->job = NULL;
	if (abandoned)
		fail_with(i, -ETIMEDOUT, "the image store did not answer in time");
	else if (i->state == PROBING && i->status == -ENOENT)
		go_ahead(i);
	else if (i->status)
		fail(i, &i->err);
	else if (i->state != ENDED)
		succeed(i);
}

static void release(void *user) { unref(user); }

static const struct worker_ops ops = { work, done, release };

static void submit(struct import *i, uint64_t timeout_ms)
{
	i->status = 0;
	i->err = (struct edera_error)EDERA_ERROR_INIT;
	i->refs++;
	i->job = worker_submit(i->d->workers, NULL, timeout_ms, &ops, i);
}

/* ---- those who follow ---- */

/* The same image, under the same name, is being imported? */
static struct import *in_work(const struct import *i)
{
	for (struct import *o = i->d->imports; o; o = o->next)
		if (o->state != FOLLOWING && o->format == i->format && (*i->name || *i->digest) && !strcmp(o->name, i->name) && !strcmp(o->digest, i->digest) &&
		    (o->overwrite || !i->overwrite))
			return o;
	return NULL;
}

static void follow_end(struct import *leader, const struct edera_error *err)
{
	for (struct import *i = leader->d->imports, *next; i; i = next) {
		next = i->next;
		if (i->leader != leader)
			continue;
		i->leader = NULL;
		if (err) {
			fail(i, err);
			continue;
		}
		/* It is cached now; the store says so itself, and the metadata is read. */
		snprintf(i->digest, sizeof i->digest, "%s", leader->found);
		i->overwrite = false;
		submit(i, SERVICE_QUERY_TIMEOUT_MS);
	}
}

/* ---- what is received ---- */

static uint64_t silence_ms(const struct import *i) { return (uint64_t)conf_int(i->d->conf, "oci.import-idle-seconds") * 1000; }

static void silent(uv_timer_t *t)
{
	struct import *i = t->data;

	if (i->paused) /* it is us who do not read */
		return;
	fail_with(i, -ETIMEDOUT, "the client sent nothing for %llu seconds ([oci] import-idle-seconds)", (unsigned long long)silence_ms(i) / 1000);
}

static void set_paused(struct import *i, bool paused)
{
	i->paused = paused;
	if (i->call && paused)
		grpc_call_pause(i->call);
	else if (i->call)
		grpc_call_resume(i->call);
}

static void upload_room(void *user)
{
	struct import *i = user;

	if (i->state == RECEIVING)
		set_paused(i, false);
}

static void upload_complete(void *user, int fd)
{
	struct import *i = user;

	if (i->state != RECEIVING)
		return;
	i->state = WORKING;
	i->archive_fd = fd;
	submit(i, (uint64_t)conf_int(i->d->conf, "oci.pull-timeout-seconds") * 1000);
}

static void upload_failed(void *user, const struct edera_error *err) { fail(user, err); }

static const struct upload_ops upload_ops = { upload_room, upload_complete, upload_failed };

static void take(struct import *i, const void *data, size_t n, bool last)
{
	struct edera_error err = EDERA_ERROR_INIT;

	if (i->last) {
		fail_with(i, -EINVAL, "a message follows the last chunk");
		return;
	}
	if (upload_put(i->upload, data, n, &err)) {
		fail(i, &err);
		return;
	}
	if (n)
		uv_timer_again(&i->silence);
	if (last) {
		i->last = true;
		uv_timer_stop(&i->silence);
		upload_end(i->upload);
	} else if (upload_full(i->upload)) {
		set_paused(i, true);
	}
}

static void go_ahead(struct import *i)
{
	PB(ImportImageReply) reply = PROTECT__CONTROL__V1__IMPORT_IMAGE_REPLY__INIT;
	PB(OciImageProgress) started = PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS__INIT;
	bool last = i->last;

	started.phase = PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_PHASE__OCI_IMAGE_PROGRESS_PHASE_STARTED;
	reply.progress = &started;
	i->accepted = true;
	i->state = RECEIVING;
	send_reply(i, &reply);
	i->upload = upload_new(i->d->workers, i->d->cache_dir, (uint64_t)conf_int(i->d->conf, "oci.max-image-mb") << 20, "[oci] max-image-mb", &upload_ops, i);
	uv_timer_start(&i->silence, silent, silence_ms(i), silence_ms(i));
	set_paused(i, false);
	i->last = false; /* its first chunk is not taken yet */
	take(i, i->first.data, i->first.len, last);
	buf_free(&i->first);
}

static int check(struct import *i, const PB(ImportImageRequest) *q, struct edera_error *err)
{
	struct reference ref;
	int r = 0;

	if (*q->image)
		r = reference_parse(q->image, &ref, err);
	if (r)
		return r;
	if (*q->image && ref.digest[0])
		return err_set(err, -EINVAL, "'%.200s' cannot be an image's name: it has a digest in it", q->image);
	if (*q->digest && !text_valid_digest(q->digest))
		return err_set(err, -EINVAL, "'%.140s' is not a digest; it should look like sha256:<64 hex digits>", q->digest);
	if (*q->image)
		reference_format(&ref, i->name);
	snprintf(i->digest, sizeof i->digest, "%s", q->digest);
	i->format = q->format ? q->format : EDERA_IMAGE_SQUASHFS;
	i->overwrite = q->overwrite_cache;
	i->want_metadata = q->want_metadata;
	return 0;
}

static void begin(struct grpc_call *call, const PB(ImportImageRequest) *q)
{
	struct import *i = pb_xcalloc(1, sizeof *i);
	struct edera_error err = EDERA_ERROR_INIT;

	*i = (struct import){ .d = SERVICE_DAEMON(call), .call = call, .refs = 2, .archive_fd = -1 };
	uv_timer_init(i->d->loop, &i->silence);
	i->silence.data = i;
	grpc_call_set_user(call, i);
	if (check(i, q, &err)) {
		fail(i, &err);
		return;
	}
	i->leader = in_work(i);
	i->state = i->leader ? FOLLOWING : PROBING;
	i->next = i->d->imports;
	i->d->imports = i;
	if (i->leader) {
		PB(ImportImageReply) reply = PROTECT__CONTROL__V1__IMPORT_IMAGE_REPLY__INIT;

		send_reply(i, &reply);
		return;
	}
	buf_append(&i->first, q->chunk.data, q->chunk.len);
	i->last = q->last_chunk;
	set_paused(i, true);
	submit(i, SERVICE_QUERY_TIMEOUT_MS);
}

void service_import_image(struct grpc_call *call, const ProtobufCMessage *m)
{
	const PB(ImportImageRequest) *q = (const void *)m;
	struct import *i = grpc_call_user(call);

	if (!i)
		begin(call, q);
	else if (i->state == RECEIVING || i->state == WORKING)
		take(i, q->chunk.data, q->chunk.len, q->last_chunk);
}

void service_import_half_closed(struct grpc_call *call)
{
	struct import *i = grpc_call_user(call);

	if (!i)
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "the stream ended before it named an image");
	else if (i->state == RECEIVING && !i->last)
		fail_with(i, -EINVAL, "the stream ended before the last chunk (last_chunk)");
}

void service_import_closed(struct grpc_call *call)
{
	struct import *i = grpc_call_user(call);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!i)
		return;
	i->call = NULL;
	err_set(&err, -ESTALE, "the import of this image by another client, which was waited for, was given up; send it again");
	leave(i, &err);
	unref(i);
}
