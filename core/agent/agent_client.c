/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent_client.h"
#include "agent/agent_internal.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "rpc/link.h"
#include "rpc/ttrpc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVICE (&edera__agent__v1__agent__descriptor)
#define HELLO_FIRST_MS 10
#define HELLO_MAX_MS 250
#define PING_AFTER_MS 15000 /* of silence while calls wait: ask whether anybody is there */
#define DEAD_AFTER_MS 30000 /* of silence: the channel is taken for dead */
#define READ_ROUNDS 8       /* reads in one turn of the loop, so that one zone does not hold it */

struct channel {
	uv_poll_t poll;
	int fd, failed;             /* failed: negative errno of a write */
	bool opened, armed;         /* armed: waiting for room to write */
	struct agent_client *client; /* NULL once it is let go */
	struct buf tx;
};

struct agent_pending {
	struct agent_pending *prev, *next;
	struct agent_client *client;
	const ProtobufCMethodDescriptor *method;
	ProtobufCMessage *request;
	uint64_t deadline;  /* uv_now; 0 = none */
	uint32_t stream;    /* 0: not sent in this epoch */
	agent_answer answer;
	void *user;
};

struct agent_client {
	uv_loop_t *loop;
	const struct agent_client_ops *ops;
	void *user;
	struct link *link;
	struct ttrpc_conn *rpc;
	struct channel *channel;
	struct agent_pending calls;           /* ring, in order of being made */
	struct agent_process_link processes;
	uv_timer_t hello, clock;
	uint64_t hello_ms, heard;             /* heard: uv_now of the last message */
	uint64_t instance;
	bool ready, resetting, pinging, dead; /* ready: the instance is known, calls go out */
	int handles;
};

/* ---- channel ---- */

static void channel_closed(uv_handle_t *h)
{
	struct channel *c = h->data;

	close(c->fd);
	buf_free(&c->tx);
	free(c);
}

static void drop_channel(struct agent_client *a)
{
	struct channel *c = steal_ptr(a->channel);

	a->ready = false;
	uv_timer_stop(&a->hello);
	if (!c)
		return;
	c->client = NULL;
	uv_poll_stop(&c->poll);
	uv_close((uv_handle_t *)&c->poll, channel_closed);
}

static void lose_channel(struct agent_client *a, int code, const char *what)
{
	struct edera_error err = EDERA_ERROR_INIT;

	drop_channel(a);
	if (code)
		err_errno(&err, code, "the channel to the zone's agent: %s", what);
	else
		err_set(&err, -EPIPE, "the channel to the zone's agent: %s", what);
	if (!a->dead)
		a->ops->lost(a, &err, a->user);
}

static void on_channel(uv_poll_t *, int status, int events);

static void arm(struct channel *c, bool write)
{
	if (c->armed != write) {
		c->armed = write;
		uv_poll_start(&c->poll, UV_READABLE | (write ? UV_WRITABLE : 0), on_channel);
	}
}

static void flush(struct channel *c)
{
	while (c->tx.len && !c->failed) {
		ssize_t n = write(c->fd, c->tx.data, c->tx.len);

		if (n > 0)
			buf_consume(&c->tx, (size_t)n);
		else if (n < 0 && errno == EAGAIN)
			break;
		else if (n < 0 && errno != EINTR)
			c->failed = -errno;
	}
	arm(c, c->tx.len || c->failed);
}

static void link_output(void *user, const uint8_t *data, size_t len)
{
	struct agent_client *a = user;
	struct channel *c = a->channel;

	if (!c)
		return;
	buf_append(&c->tx, data, len);
	if (c->tx.failed)
		c->failed = -ENOMEM;
	if (c->opened)
		flush(c);
}

static void on_hello(uv_timer_t *t)
{
	struct agent_client *a = t->data;

	if (!a->channel || link_is_up(a->link))
		return;
	if (!a->channel->tx.len) /* a zone that does not read yet gets no pile of them */
		link_tick(a->link);
	a->hello_ms = a->hello_ms * 2 < HELLO_MAX_MS ? a->hello_ms * 2 : HELLO_MAX_MS;
	uv_timer_start(&a->hello, on_hello, a->hello_ms, 0);
}

static void on_channel(uv_poll_t *p, int status, int events)
{
	struct channel *c = p->data;
	struct agent_client *a = c->client;
	uint8_t bytes[64 << 10];

	if (!a)
		return;
	if (!c->opened) {
		c->opened = true;
		link_open(a->link);
		flush(c);
	}
	if (c->armed)
		flush(c);
	for (int i = 0; i < READ_ROUNDS && !c->failed; i++) {
		ssize_t n = read(c->fd, bytes, sizeof bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			c->failed = -errno;
			break;
		}
		if (n == 0) {
			lose_channel(a, 0, "it was closed from the other side");
			return;
		}
		link_feed(a->link, bytes, (size_t)n);
		if (c->client != a)
			return;
		if (!link_is_up(a->link) && !uv_is_active((uv_handle_t *)&a->hello)) {
			a->ready = false; /* the link began another epoch */
			a->hello_ms = HELLO_FIRST_MS;
			uv_timer_start(&a->hello, on_hello, a->hello_ms, 0);
		}
	}
	if (!c->failed && status < 0)
		c->failed = status;
	if (c->failed)
		lose_channel(a, c->failed, "reading or writing failed");
}

int agent_client_attach(struct agent_client *a, int fd, struct edera_error *err)
{
	struct channel *c = calloc(1, sizeof *c);
	int r;

	drop_channel(a);
	if (!c) {
		close(fd);
		return err_set(err, -ENOMEM, "cannot use a channel to the zone's agent: out of memory");
	}
	c->fd = fd;
	r = uv_poll_init(a->loop, &c->poll, fd);
	if (r < 0) {
		close(fd);
		free(c);
		return err_errno(err, r, "cannot watch the channel to the zone's agent");
	}
	c->poll.data = c;
	c->client = a;
	a->channel = c;
	a->hello_ms = HELLO_FIRST_MS;
	arm(c, true); /* the link is opened from the loop: we may stand in one of its callbacks here */
	uv_timer_start(&a->hello, on_hello, a->hello_ms, 0);
	return 0;
}

bool agent_client_connected(const struct agent_client *a)
{
	return a->ready && !a->dead;
}

/* ---- calls ---- */

static void unlink_call(struct agent_pending *p)
{
	p->prev->next = p->next;
	p->next->prev = p->prev;
	protobuf_c_message_free_unpacked(p->request, NULL);
}

static void finish_call(struct agent_pending *p, const ProtobufCMessage *reply, const struct edera_error *err)
{
	unlink_call(p);
	p->answer(p->user, reply, err);
	free(p);
}

static void fail_call(struct agent_pending *p, int code, const char *why)
{
	struct edera_error err = EDERA_ERROR_INIT;

	err_set(&err, code, "%s: %s", p->method->name, why);
	finish_call(p, NULL, &err);
}

static void on_answer(void *user, enum rpc_status status, const char *message, const uint8_t *payload, size_t len)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct agent_pending *p = user;
	ProtobufCMessage *reply = NULL;

	p->stream = 0;
	if (p->client->resetting)
		return;
	if (status != RPC_OK)
		err_set(&err, rpc_errno_of_status(status), "%s", message && *message ? message : rpc_status_name(status));
	else
		rpc_msg_unpack(p->method->output, payload, len, NULL, &reply, &err);
	if (reply)
		finish_call(p, reply, NULL);
	else
		finish_call(p, NULL, &err);
	if (reply)
		protobuf_c_message_free_unpacked(reply, NULL);
}

static void send_call(struct agent_pending *p)
{
	struct agent_client *a = p->client;
	int64_t stream, left = 0;

	if (p->deadline)
		left = p->deadline > uv_now(a->loop) ? (int64_t)(p->deadline - uv_now(a->loop)) * 1000000 : 1;
	stream = ttrpc_conn_call(a->rpc, "edera.agent.v1.Agent", p->method->name, p->request, left, NULL, on_answer, p);
	if (stream > 0)
		p->stream = (uint32_t)stream;
}

static void on_clock(uv_timer_t *);

static bool alive(const struct agent_client *a)
{
	return a->channel && a->channel->opened && link_is_up(a->link);
}

static void set_clock(struct agent_client *a)
{
	uint64_t now = uv_now(a->loop), next = UINT64_MAX;
	bool listening = alive(a);

	for (struct agent_pending *p = a->calls.next; p != &a->calls; p = p->next) {
		if (p->deadline && p->deadline < next)
			next = p->deadline;
		if (p->stream && listening) {
			uint64_t silent = a->heard + (a->pinging ? DEAD_AFTER_MS : PING_AFTER_MS);

			if (silent < next)
				next = silent;
		}
	}
	if (next == UINT64_MAX)
		uv_timer_stop(&a->clock);
	else
		uv_timer_start(&a->clock, on_clock, next > now ? next - now : 0, 0);
}

static void on_pong(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	struct agent_client *a = user;

	a->pinging = false;
}

static void on_clock(uv_timer_t *t)
{
	Edera__Agent__V1__StatusRequest ping = EDERA__AGENT__V1__STATUS_REQUEST__INIT;
	struct agent_client *a = t->data;
	uint64_t now = uv_now(a->loop);
	bool waiting = false, listening = alive(a);

	for (struct agent_pending *p = a->calls.next, *next; p != &a->calls; p = next) {
		next = p->next;
		if (p->deadline && p->deadline <= now) {
			if (p->stream)
				ttrpc_conn_forget(a->rpc, p->stream);
			fail_call(p, -ETIMEDOUT, "the zone's agent did not answer in time");
			next = a->calls.next; /* the callback may have changed the list */
			if (a->dead)
				return;
		} else if (p->stream && listening) {
			waiting = true;
		}
	}
	if (waiting && now - a->heard >= DEAD_AFTER_MS) {
		lose_channel(a, -ETIMEDOUT, "nothing was heard from the zone");
		return;
	}
	if (waiting && a->ready && !a->pinging && now - a->heard >= PING_AFTER_MS)
		a->pinging = agent_call_start(a, "Status", &ping.base, 0, on_pong, a);
	set_clock(a);
}

static ProtobufCMessage *copy_message(const ProtobufCMessage *m)
{
	size_t n = protobuf_c_message_get_packed_size(m);
	uint8_t *bytes = malloc(n + 1);
	ProtobufCMessage *copy = NULL;

	if (bytes) {
		protobuf_c_message_pack(m, bytes);
		copy = protobuf_c_message_unpack(m->descriptor, NULL, n, bytes);
	}
	free(bytes);
	return copy;
}

/* Before the instance is known only the question for it is sent. */
static struct agent_pending *start(struct agent_client *a, const char *method, const ProtobufCMessage *request, uint64_t timeout_ms, agent_answer answer,
				   void *user, bool first)
{
	struct agent_pending *p = a->dead ? NULL : calloc(1, sizeof *p), *at = first ? a->calls.next : &a->calls;

	if (!p)
		return NULL;
	p->client = a;
	p->method = protobuf_c_service_descriptor_get_method_by_name(SERVICE, method);
	p->request = copy_message(request);
	if (!p->method || !p->request) {
		if (p->request)
			protobuf_c_message_free_unpacked(p->request, NULL);
		free(p);
		return NULL;
	}
	p->answer = answer;
	p->user = user;
	if (timeout_ms)
		p->deadline = uv_now(a->loop) + timeout_ms;
	p->prev = at->prev;
	p->next = at;
	p->prev->next = p;
	at->prev = p;
	if ((a->ready || first) && a->rpc) {
		bool quiet = true;

		for (const struct agent_pending *q = a->calls.next; q != &a->calls && quiet; q = q->next)
			quiet = !q->stream;
		if (quiet)
			a->heard = uv_now(a->loop); /* silence counts from the moment somebody waits */
		send_call(p);
	}
	set_clock(a);
	return p;
}

struct agent_pending *agent_call_start(struct agent_client *a, const char *method, const ProtobufCMessage *request, uint64_t timeout_ms, agent_answer answer,
				       void *user)
{
	return start(a, method, request, timeout_ms, answer, user, false);
}

void agent_call_cancel(struct agent_pending *p)
{
	if (!p)
		return;
	if (p->stream)
		ttrpc_conn_forget(p->client->rpc, p->stream);
	unlink_call(p);
	free(p);
}

struct failed_call {
	uv_timer_t timer;
	agent_answer answer;
	void *user;
	int code;
};

static void free_handle(uv_handle_t *h)
{
	free(h->data);
}

static void on_failed_call(uv_timer_t *t)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct failed_call *f = t->data;

	err_set(&err, f->code, "cannot call the zone's agent: %s", f->code == -ENOMEM ? "out of memory" : "the connection was given up");
	f->answer(f->user, NULL, &err);
	uv_close((uv_handle_t *)t, free_handle);
}

void agent_call(struct agent_client *a, const char *method, const ProtobufCMessage *request, uint64_t timeout_ms, agent_answer answer, void *user)
{
	struct failed_call *f;

	if (agent_call_start(a, method, request, timeout_ms, answer, user))
		return;
	f = calloc(1, sizeof *f);
	if (!f)
		abort();
	f->answer = answer;
	f->user = user;
	f->code = a->dead ? -ECANCELED : -ENOMEM;
	f->timer.data = f;
	uv_timer_init(a->loop, &f->timer);
	uv_timer_start(&f->timer, on_failed_call, 0, 0);
}

/* ---- epochs ---- */

static void rpc_output(void *user, const uint8_t *data, size_t len)
{
	struct agent_client *a = user;

	link_send(a->link, data, len);
}

static const struct ttrpc_ops rpc_ops = { .output = rpc_output };

static void on_instance(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	const Edera__Agent__V1__StatusReply *s = (const Edera__Agent__V1__StatusReply *)reply;
	struct agent_client *a = user;
	bool rebooted;

	if (err || !s->instance) {
		if (!a->dead)
			lose_channel(a, -EPROTO, "the agent did not say who it is");
		return;
	}
	rebooted = a->instance && a->instance != s->instance;
	a->instance = s->instance;
	a->ready = true;
	if (rebooted) {
		struct edera_error stale = EDERA_ERROR_INIT;

		err_set(&stale, -ESTALE, "the zone was started anew, its processes are gone");
		while (a->processes.next != &a->processes)
			agent_process_fail(a->processes.next, &stale);
	}
	if (!a->dead)
		a->ops->connected(a, a->instance, a->user); /* what it calls goes out first */
	if (a->dead || !a->ready)
		return;
	for (struct agent_pending *p = a->calls.next; p != &a->calls; p = p->next)
		if (!p->stream)
			send_call(p);
	set_clock(a);
}

static void link_up(void *user)
{
	Edera__Agent__V1__StatusRequest ask = EDERA__AGENT__V1__STATUS_REQUEST__INIT;
	struct agent_client *a = user;

	uv_timer_stop(&a->hello);
	a->ready = false;
	a->heard = uv_now(a->loop);
	a->resetting = true;
	ttrpc_conn_free(a->rpc);
	a->resetting = false;
	a->pinging = false;
	a->rpc = ttrpc_conn_new(&rpc_ops, a);
	/* The questions of an older epoch for the same thing have no use any more. */
	for (struct agent_pending *p = a->calls.next, *next; p != &a->calls; p = next) {
		next = p->next;
		if (p->answer == on_instance || p->answer == on_pong)
			agent_call_cancel(p);
	}
	start(a, "Status", &ask.base, 0, on_instance, a, true);
}

static void link_message(void *user, const uint8_t *data, size_t len)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct agent_client *a = user;

	a->heard = uv_now(a->loop);
	if (!a->rpc || a->dead)
		return;
	if (ttrpc_conn_feed(a->rpc, data, len, &err) < 0 && a->channel)
		a->channel->failed = -EPROTO;
}

static const struct link_ops link_ops = { .output = link_output, .up = link_up, .message = link_message };

/* ---- life ---- */

struct agent_client *agent_client_new(uv_loop_t *loop, const struct agent_client_ops *ops, void *user)
{
	struct agent_client *a = calloc(1, sizeof *a);

	if (!a)
		return NULL;
	a->loop = loop;
	a->ops = ops;
	a->user = user;
	a->calls.prev = a->calls.next = &a->calls;
	a->processes.prev = a->processes.next = &a->processes;
	a->link = link_new(LINK_HOST, &link_ops, a);
	if (!a->link) {
		free(a);
		return NULL;
	}
	uv_timer_init(loop, &a->hello);
	uv_timer_init(loop, &a->clock);
	a->hello.data = a->clock.data = a;
	a->handles = 2;
	return a;
}

/* Only here, on a turn of its own, is it sure that none of its callbacks is under way. */
static void on_handle_closed(uv_handle_t *h)
{
	struct agent_client *a = h->data;

	if (--a->handles)
		return;
	ttrpc_conn_free(a->rpc);
	link_free(a->link);
	free(a);
}

void agent_client_free(struct agent_client *a)
{
	struct edera_error err = EDERA_ERROR_INIT;

	if (!a || a->dead)
		return;
	a->dead = true;
	err_set(&err, -ECANCELED, "the connection to the zone's agent was given up");
	while (a->processes.next != &a->processes)
		agent_process_fail(a->processes.next, &err);
	while (a->calls.next != &a->calls) {
		struct agent_pending *p = a->calls.next;

		if (p->stream)
			ttrpc_conn_forget(a->rpc, p->stream);
		fail_call(p, -ECANCELED, err.msg);
	}
	drop_channel(a);
	uv_close((uv_handle_t *)&a->hello, on_handle_closed);
	uv_close((uv_handle_t *)&a->clock, on_handle_closed);
}

void agent_client_add_process(struct agent_client *a, struct agent_process_link *l)
{
	l->prev = a->processes.prev;
	l->next = &a->processes;
	l->prev->next = l;
	a->processes.prev = l;
}

void agent_client_remove_process(struct agent_client *a, struct agent_process_link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	l->prev = l->next = l;
}
