/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h2.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE (64u << 10)
#define WRITE_SIZE (64u << 10) /* gathered for one write */
#define KEEP_OUTPUT (16u << 10)

/* ---- what nghttp2 tells us ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_conn *c = user;
	struct h2_stream *s;

	if (!c->role->server || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	s = c->role->accept(c);
	if (!s)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	s->id = frame->hd.stream_id;
	nghttp2_session_set_stream_user_data(session, s->id, s);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t namelen, const uint8_t *value, size_t valuelen,
		     uint8_t flags, void *user)
{
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	struct h2_conn *c = user;

	if (!s)
		return 0;
	s->header_bytes += namelen + valuelen + 32; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts */
	if (s->header_bytes > H2_HEADER_LIST_MAX)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	c->role->header(s, (const char *)name, (const char *)value, valuelen);
	return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_conn *c = user;
	struct h2_stream *s;

	if (frame->hd.type == NGHTTP2_GOAWAY && c->role->goaway)
		c->role->goaway(c);
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (!s)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS)
		s->opened = true;
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		s->remote_end = true;
	h2_stream_ready(s);
	return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);

	/* The connection's window is given back at once, so that a paused stream does not hold up the others. */
	nghttp2_session_consume_connection(session, len);
	if (s)
		h2_stream_received(s, data, len);
	else
		nghttp2_session_consume_stream(session, id, len);
	return 0;
}

static void stream_closed(struct h2_conn *c, struct h2_stream *s, uint32_t code)
{
	s->id = 0;
	s->closed = true;
	s->close_code = code;
	if (c->role->server || !s->remote_end)
		h2_stream_abort(s);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);

	if (s)
		stream_closed(user, s, code);
	return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_conn *c = user;

	/* A call may end before its client has said all; the client is told to stop. */
	if (c->role->server && frame->hd.type == NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
	    nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
	return 0;
}

static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int why, void *user)
{
	struct h2_conn *c = user;
	struct h2_stream *s;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	TAILQ_FOREACH(s, &c->streams, link) /* such a stream is not known to nghttp2 */
		if (s->id == frame->hd.stream_id) {
			stream_closed(c, s, NGHTTP2_REFUSED_STREAM);
			break;
		}
	return 0;
}

/* ---- session ---- */

static nghttp2_session_callbacks *make_callbacks(void)
{
	nghttp2_session_callbacks *cb;

	if (nghttp2_session_callbacks_new(&cb))
		return NULL;
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_send);
	return cb;
}

static nghttp2_option *make_options(void)
{
	nghttp2_option *o;

	if (nghttp2_option_new(&o))
		return NULL;
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	nghttp2_option_set_max_outbound_ack(o, 256);
	nghttp2_option_set_stream_reset_rate_limit(o, 4 * H2_STREAMS_MAX, 256); /* burst, and more per second */
	return o;
}

static int submit_settings(struct h2_conn *c)
{
	nghttp2_settings_entry entries[] = {
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_HEADER_LIST_MAX },
		{ c->role->server ? NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS : NGHTTP2_SETTINGS_ENABLE_PUSH, c->role->server ? H2_STREAMS_MAX : 0 },
	};
	int r = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, entries, sizeof entries / sizeof entries[0]);

	return r ? r : nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, H2_CONN_WINDOW);
}

static int make_session(struct h2_conn *c)
{
	nghttp2_session_callbacks *callbacks = make_callbacks();
	nghttp2_option *options = make_options();
	int r = -1;

	if (callbacks && options)
		r = c->role->server ? nghttp2_session_server_new2(&c->session, callbacks, c, options)
				    : nghttp2_session_client_new2(&c->session, callbacks, c, options);
	nghttp2_option_del(options);
	nghttp2_session_callbacks_del(callbacks);
	return r ? r : submit_settings(c);
}

/* ---- running ---- */

static void on_idle(uv_idle_t *idle);
static void on_poll(uv_poll_t *poll, int status, int events);

void h2_conn_wake(struct h2_conn *c)
{
	if (!c->ending)
		uv_idle_start(&c->idle, on_idle); /* nothing new if it is active */
}

static void set_blocked(struct h2_conn *c, bool blocked)
{
	if (c->blocked == blocked)
		return;
	c->blocked = blocked;
	uv_poll_start(&c->poll, UV_READABLE | (blocked ? UV_WRITABLE : 0), on_poll);
}

/* Gathers what nghttp2 wants to say. */
static int gather(struct h2_conn *c)
{
	const uint8_t *p;
	ssize_t n = 0;

	c->out_done = 0;
	buf_clear(&c->out);
	while (c->out.len < WRITE_SIZE && (n = nghttp2_session_mem_send(c->session, &p)) > 0)
		buf_append(&c->out, p, (size_t)n);
	return n < 0 ? (int)n : c->out.failed ? NGHTTP2_ERR_NOMEM : 0;
}

static void flush(struct h2_conn *c)
{
	while (c->started && !c->blocked && !c->closing) {
		ssize_t n;
		int r = c->out_done == c->out.len ? gather(c) : 0;

		if (r) {
			h2_conn_fail(c, "%s", nghttp2_strerror(r));
			return;
		}
		if (c->out.len == 0)
			break;
		n = send(c->fd, c->out.data + c->out_done, c->out.len - c->out_done, MSG_NOSIGNAL);
		if (n >= 0)
			c->out_done += (size_t)n;
		else if (errno == EAGAIN)
			set_blocked(c, true);
		else if (errno != EINTR)
			h2_conn_fail(c, "%s", strerror(errno));
	}
	if (c->out.len == 0 && c->out.cap > KEEP_OUTPUT)
		buf_free(&c->out);
}

static void run_ready(struct h2_conn *c)
{
	size_t n = c->n_streams; /* what becomes ready once more meanwhile waits for the next turn */

	while (n-- && !TAILQ_EMPTY(&c->ready)) {
		struct h2_stream *s = TAILQ_FIRST(&c->ready);

		TAILQ_REMOVE(&c->ready, s, ready_link);
		s->ready = false;
		h2_stream_run(s);
	}
}

static bool is_over(const struct h2_conn *c)
{
	return c->started && !c->closing && !c->blocked && !nghttp2_session_want_write(c->session) &&
	       (!nghttp2_session_want_read(c->session) || (c->draining && !c->n_streams));
}

static void lose_streams(struct h2_conn *c)
{
	struct h2_stream *s;

	nghttp2_session_del(c->session);
	c->session = NULL;
	TAILQ_FOREACH(s, &c->streams, link) {
		if (s->closed)
			continue;
		s->lost = true;
		stream_closed(c, s, NGHTTP2_NO_ERROR);
	}
}

static void handle_closed(uv_handle_t *h)
{
	struct h2_conn *c = h->data;

	if (--c->handles)
		return;
	c->role->gone(c);
	buf_free(&c->out);
	free(c);
}

static void end(struct h2_conn *c)
{
	c->ending = true;
	c->handles = c->started ? 2 : 1;
	uv_close((uv_handle_t *)&c->idle, handle_closed);
	if (c->started)
		uv_close((uv_handle_t *)&c->poll, handle_closed);
}

static void conn_run(struct h2_conn *c)
{
	run_ready(c);
	flush(c);
	if (is_over(c))
		h2_conn_close(c);
	if (c->closing && c->session)
		lose_streams(c);
	if (!TAILQ_EMPTY(&c->ready))
		h2_conn_wake(c);
	else if (c->closing && !c->n_streams && !c->ending)
		end(c);
	else
		uv_idle_stop(&c->idle);
}

static void on_idle(uv_idle_t *idle) { conn_run(idle->data); }

/* ---- transport ---- */

static void receive(struct h2_conn *c)
{
	uint8_t data[READ_SIZE];
	ssize_t n = recv(c->fd, data, sizeof data, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0)
		h2_conn_fail(c, "%s", strerror(errno));
	else if (n == 0)
		h2_conn_close(c);
	else if ((n = nghttp2_session_mem_recv(c->session, data, (size_t)n)) < 0)
		h2_conn_fail(c, "%s", nghttp2_strerror((int)n));
	else if (nghttp2_session_get_outbound_queue_size(c->session) > H2_FRAMES_MAX)
		h2_conn_fail(c, "the peer does not read what it asks for");
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct h2_conn *c = poll->data;

	if (status)
		h2_conn_fail(c, "%s", uv_strerror(status));
	if (!c->closing && events & UV_WRITABLE)
		set_blocked(c, false);
	if (!c->closing && events & UV_READABLE)
		receive(c);
	conn_run(c);
}

void h2_conn_close(struct h2_conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	if (c->started)
		uv_poll_stop(&c->poll);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	h2_conn_wake(c);
}

void h2_conn_fail(struct h2_conn *c, const char *fmt, ...)
{
	va_list ap;

	if (c->closing)
		return;
	va_start(ap, fmt);
	vsnprintf(c->why, sizeof c->why, fmt, ap);
	va_end(ap);
	h2_conn_close(c);
}

void h2_conn_drain(struct h2_conn *c)
{
	if (c->draining || c->closing)
		return;
	c->draining = true;
	nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR, NULL, 0);
	h2_conn_wake(c);
}

int h2_conn_start(struct h2_conn *c, int fd)
{
	int r = uv_poll_init(c->loop, &c->poll, fd);

	c->fd = fd;
	if (!r) {
		c->started = true;
		c->poll.data = c;
		r = uv_poll_start(&c->poll, UV_READABLE, on_poll);
	}
	if (r)
		h2_conn_fail(c, "%s", uv_strerror(r));
	h2_conn_wake(c);
	return r;
}

struct h2_conn *h2_conn_new(uv_loop_t *loop, const struct h2_role *role, void *owner)
{
	struct h2_conn *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->loop = loop;
	c->fd = -1;
	c->role = role;
	c->owner = owner;
	TAILQ_INIT(&c->streams);
	TAILQ_INIT(&c->ready);
	if (make_session(c)) {
		nghttp2_session_del(c->session);
		free(c);
		return NULL;
	}
	uv_idle_init(loop, &c->idle);
	c->idle.data = c;
	return c;
}
