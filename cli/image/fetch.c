/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/fetch.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/docker_auth.h"
#include "cli/image/image.h"
#include "cli/interrupt.h"

#include <string.h>

struct pull {
	struct grpc_stream *stream;
	struct progress *progress;
	Protect__Control__V1__PullImageReply *last; /* the one with the image in it */
	uint64_t bytes;
	uv_timer_t timer;
	int done, timer_open;
	enum rpc_status status;
	char *message;
};

static void on_message(struct grpc_stream *s, const ProtobufCMessage *m, void *user)
{
	const Protect__Control__V1__PullImageReply *reply = (const void *)m;
	struct pull *p = user;

	if (reply->progress)
		progress_update(p->progress, reply->progress);
	if (reply->spec && reply->spec->digest && *reply->spec->digest) {
		cli_free_message(&p->last);
		p->last = cli_copy_message(reply);
	}
}

static void on_done(struct grpc_stream *s, enum rpc_status status, const char *message, void *user)
{
	struct pull *p = user;

	p->status = status;
	p->message = need(strdup(message));
	p->done = 1;
}

static void on_timer(uv_timer_t *t)
{
	progress_tick(((struct pull *)t->data)->progress);
}

static void on_timer_closed(uv_handle_t *h)
{
	((struct pull *)h->data)->timer_open = 0;
}

static void send_request(struct pull *p, const struct fetch *f, struct docker_auth *auth, bool has_auth)
{
	Protect__Control__V1__PullImageRequest request = PROTECT__CONTROL__V1__PULL_IMAGE_REQUEST__INIT;

	if (f->variant) {
		request.source_case = PROTECT__CONTROL__V1__PULL_IMAGE_REQUEST__SOURCE_KERNEL_VARIANT;
		request.kernel_variant = (char *)f->variant;
	} else {
		request.source_case = PROTECT__CONTROL__V1__PULL_IMAGE_REQUEST__SOURCE_IMAGE;
		request.image = (char *)f->image;
	}
	request.format = f->format;
	request.overwrite_cache = f->overwrite;
	request.update = f->update;
	if (has_auth)
		request.auth = &auth->message;
	grpc_stream_send(p->stream, (const ProtobufCMessage *)&request);
	grpc_stream_half_close(p->stream);
}

/* Runs the stream to its end; 0, or -EINTR. */
static int follow(struct cli *cli, struct pull *p)
{
	uv_timer_init(&cli->loop, &p->timer);
	p->timer.data = p;
	p->timer_open = 1;
	uv_timer_start(&p->timer, on_timer, 0, 100);
	if (interrupts_or(cli, &p->done) && !p->done)
		grpc_stream_cancel(p->stream);
	while (!p->done)
		uv_run(&cli->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&p->timer, on_timer_closed);
	while (p->timer_open)
		uv_run(&cli->loop, UV_RUN_ONCE);
	return cli->interrupted ? -EINTR : 0;
}

int image_fetch(struct cli *cli, const struct fetch *f, Protect__Control__V1__PullImageReply **ret, struct edera_error *err)
{
	static const struct grpc_stream_ops ops = { .message = on_message, .done = on_done };
	const char *title = f->variant ? f->variant : f->image;
	struct docker_auth auth = { 0 };
	struct edera_error auth_error = EDERA_ERROR_INIT;
	struct pull p = { 0 };
	bool has_auth = false;
	int r = cli_connect(cli, err);

	if (r)
		return r;
	if (f->image && !text_valid_digest(f->image)) {
		r = docker_auth_find(f->image, &auth, &auth_error);
		if (r < 0)
			cli_warn("going on without credentials: %s", auth_error.msg);
		has_auth = r > 0;
	}
	p.progress = progress_new(f->progress, title);
	p.stream = grpc_client_open(cli->client, cli_service(CONTROL), "PullImage", 0, &ops, &p);
	if (!p.stream) {
		r = err_set(err, -ENOMEM, "cannot open a call to the daemon");
		goto out;
	}
	send_request(&p, f, &auth, has_auth);
	r = follow(cli, &p);
	if (r)
		err_set(err, r, "interrupted while pulling '%s'", title);
	else if (p.status)
		r = cli_status_error(err, p.status, "PullImage", p.message);
	else if (!p.last)
		r = err_set(err, -EPROTO, "the daemon ended the pull of '%s' without naming the image", title);
	if (!r)
		*ret = steal_ptr(p.last);
out:
	progress_free(p.progress);
	docker_auth_free(&auth);
	cli_free_message(&p.last);
	free(p.message);
	return r;
}
