/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent_internal.h"
#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define READ_MAX (64u << 10)    /* of one stream in one answer; the protocol's limit too */
#define READ_WAIT_MS 10000
#define WRITE_MAX (32u << 10)   /* of stdin in one request */
#define STDIN_HIGH (64u << 10)  /* queued bytes from which on agent_process_write says -EAGAIN */
#define RELEASE_TIMEOUT_MS 60000

struct agent_process {
	struct agent_process_link link; /* first: agent_process_fail finds the process by it */
	struct agent_client *client;
	struct agent_process_ops ops;
	void *user;
	char *id;
	bool paused, from_oldest, done, freed;
	int depth;                      /* in how many of our own frames callbacks are under way */
	uint64_t out, err;
	bool out_eof, err_eof;
	struct agent_pending *exec, *read, *write;
	/* stdin */
	struct buf in;
	uint64_t in_offset;             /* of in.data[0] */
	size_t in_sent;                 /* bytes of `in` that the request under way holds */
	bool in_unknown;                /* where the zone has it is still to be asked */
	bool in_eof, in_closed, eof_sent, want_writable;
};

static struct agent_process *of_link(struct agent_process_link *l)
{
	return (struct agent_process *)l;
}

static void destroy(struct agent_process *p)
{
	buf_free(&p->in);
	free(p->id);
	free(p);
}

/* A callback may free the process: what comes after one looks at `freed`, and leave() ends it. */
static void enter(struct agent_process *p)
{
	p->depth++;
}

static void leave(struct agent_process *p)
{
	if (!--p->depth && p->freed)
		destroy(p);
}

static void finish(struct agent_process *p, const struct agent_exit *exit, const struct edera_error *err)
{
	if (p->done)
		return;
	p->done = true;
	p->in_closed = true;
	agent_client_remove_process(p->client, &p->link);
	agent_call_cancel(p->exec);
	agent_call_cancel(p->read);
	agent_call_cancel(p->write);
	p->exec = p->read = p->write = NULL;
	enter(p);
	if (!p->freed)
		p->ops.done(p, exit, err, p->user);
	leave(p);
}

void agent_process_fail(struct agent_process_link *l, const struct edera_error *err)
{
	struct agent_process *p = of_link(l);

	enter(p);
	finish(p, NULL, err);
	p->client = NULL; /* it goes, or the zone that knew the process did: there is nothing left to release */
	leave(p);
}

static void fail(struct agent_process *p, int code, const char *why)
{
	struct edera_error err = EDERA_ERROR_INIT;

	err_set(&err, code, "the process '%s': %s", p->id, why);
	finish(p, NULL, &err);
}

/* ---- output ---- */

static void read_on(struct agent_process *);

/* One stream's part of an answer: what was asked for, from where it was asked, and no more. */
static bool check_part(uint64_t expected, bool any, bool was_eof, uint64_t offset, const ProtobufCBinaryData *data, bool eof)
{
	if (data->len > READ_MAX || offset + data->len < offset)
		return false;
	if (was_eof)
		return !data->len;
	return any || offset == expected || (!data->len && !eof);
}

static void deliver(struct agent_process *p, enum agent_stream s, uint64_t *offset, const ProtobufCBinaryData *data)
{
	uint64_t at = *offset;

	*offset += data->len;
	if (data->len && !p->freed && !p->done)
		p->ops.output(p, s, at, data->data, data->len, p->user);
}

static void take_exit(struct agent_process *p, const Edera__Agent__V1__Exit *e)
{
	struct agent_exit exit = { e->code, e->signal, e->oom };

	if (e->code < 0 || e->code > 255 || e->signal < 0 || e->signal > 127 || !p->out_eof || !p->err_eof)
		fail(p, -EPROTO, "the zone reported an end that cannot be");
	else
		finish(p, &exit, NULL);
}

static void on_read(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	const Edera__Agent__V1__ReadReply *r = (const Edera__Agent__V1__ReadReply *)reply;
	struct agent_process *p = user;

	p->read = NULL;
	if (err) {
		/* A process that did not start is unknown; Exec's own answer, which is on its way, says why. */
		if (!p->exec)
			finish(p, NULL, err);
		return;
	}
	if (!check_part(p->out, p->from_oldest, p->out_eof, r->stdout_offset, &r->stdout, r->stdout_eof) ||
	    !check_part(p->err, p->from_oldest, p->err_eof, r->stderr_offset, &r->stderr, r->stderr_eof)) {
		fail(p, -EPROTO, "the zone sent output that was not asked for");
		return;
	}
	if (p->from_oldest) {
		p->out = r->stdout_offset;
		p->err = r->stderr_offset;
		p->from_oldest = false;
	}
	enter(p);
	deliver(p, AGENT_STDOUT, &p->out, &r->stdout);
	deliver(p, AGENT_STDERR, &p->err, &r->stderr);
	p->out_eof = p->out_eof || r->stdout_eof;
	p->err_eof = p->err_eof || r->stderr_eof;
	if (!p->freed && !p->done) {
		if (r->exit)
			take_exit(p, r->exit);
		else
			read_on(p);
	}
	leave(p);
}

static void read_on(struct agent_process *p)
{
	Edera__Agent__V1__ReadRequest r = EDERA__AGENT__V1__READ_REQUEST__INIT;

	if (p->paused || p->read || p->done)
		return;
	r.id = p->id;
	r.stdout_offset = p->out;
	r.stderr_offset = p->err;
	r.stdout_max = r.stderr_max = READ_MAX;
	r.from_oldest = p->from_oldest;
	r.wait_ms = READ_WAIT_MS;
	p->read = agent_call_start(p->client, "Read", &r.base, 0, on_read, p);
	if (!p->read)
		fail(p, -ENOMEM, "out of memory");
}

void agent_process_pause(struct agent_process *p)
{
	p->paused = true;
	/* Nothing was handed over, so the same offsets are asked for again later. */
	agent_call_cancel(p->read);
	p->read = NULL;
}

void agent_process_resume(struct agent_process *p)
{
	p->paused = false;
	read_on(p);
}

/* ---- input ---- */

static void write_on(struct agent_process *);

static void on_write(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	const Edera__Agent__V1__WriteReply *w = (const Edera__Agent__V1__WriteReply *)reply;
	struct agent_process *p = user;
	size_t taken;

	p->write = NULL;
	if (!err && p->in_unknown) {
		p->in_unknown = false;
		p->in_offset = w->accepted_offset;
	}
	if (err) { /* the process's end, if it is that, is told by Read */
		p->in_closed = true;
		return;
	}
	if (w->accepted_offset < p->in_offset || w->accepted_offset > p->in_offset + p->in_sent) {
		fail(p, -EPROTO, "the zone accepted input that it was not sent");
		return;
	}
	taken = (size_t)(w->accepted_offset - p->in_offset);
	buf_consume(&p->in, taken);
	p->in_offset += taken;
	if (p->eof_sent && taken < p->in_sent)
		p->eof_sent = false; /* it stands behind bytes that are still to go */
	if (w->closed) {
		p->in_closed = true;
		buf_clear(&p->in);
	}
	enter(p);
	write_on(p);
	if (p->want_writable && (p->in_closed || p->in.len < STDIN_HIGH / 2)) {
		p->want_writable = false;
		if (p->ops.writable && !p->done)
			p->ops.writable(p, p->user);
	}
	leave(p);
}

static void write_on(struct agent_process *p)
{
	Edera__Agent__V1__WriteRequest w = EDERA__AGENT__V1__WRITE_REQUEST__INIT;

	if (p->write || p->done || p->in_closed || (!p->in.len && (!p->in_eof || p->eof_sent)))
		return;
	w.id = p->id;
	p->in_sent = 0;
	if (!p->in_unknown) { /* else nothing is sent but the question */
		p->in_sent = p->in.len < WRITE_MAX ? p->in.len : WRITE_MAX;
		w.offset = p->in_offset;
		w.data = (ProtobufCBinaryData){ .len = p->in_sent, .data = p->in.data };
		w.eof = p->eof_sent = p->in_eof && p->in_sent == p->in.len;
		w.wait_ms = READ_WAIT_MS;
	}
	p->write = agent_call_start(p->client, "Write", &w.base, 0, on_write, p);
}

int agent_process_write(struct agent_process *p, const uint8_t *data, size_t len)
{
	if (p->in_closed || p->in_eof)
		return -EPIPE;
	if (p->in.len >= STDIN_HIGH) {
		p->want_writable = true;
		return -EAGAIN;
	}
	buf_append(&p->in, data, len);
	if (p->in.failed) {
		p->in_closed = true;
		return -ENOMEM;
	}
	write_on(p);
	return 0;
}

void agent_process_close_stdin(struct agent_process *p)
{
	p->in_eof = true;
	write_on(p);
}

/* ---- the rest ---- */

static void ignore(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
}

void agent_process_resize(struct agent_process *p, uint32_t rows, uint32_t columns)
{
	Edera__Agent__V1__ResizeRequest r = EDERA__AGENT__V1__RESIZE_REQUEST__INIT;
	Protect__Control__V1__TerminalSize size = PROTECT__CONTROL__V1__TERMINAL_SIZE__INIT;

	if (p->done)
		return;
	size.rows = rows;
	size.columns = columns;
	r.id = p->id;
	r.size = &size;
	agent_call(p->client, "Resize", &r.base, RELEASE_TIMEOUT_MS, ignore, NULL);
}

void agent_process_signal(struct agent_process *p, int signal)
{
	Edera__Agent__V1__SignalRequest s = EDERA__AGENT__V1__SIGNAL_REQUEST__INIT;

	if (p->done)
		return;
	s.id = p->id;
	s.signal = signal;
	if (getrandom(&s.token, sizeof s.token, 0) != sizeof s.token)
		s.token = uv_hrtime();
	agent_call(p->client, "Signal", &s.base, RELEASE_TIMEOUT_MS, ignore, NULL);
}

static void on_exec(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	struct agent_process *p = user;

	p->exec = NULL;
	if (err)
		finish(p, NULL, err);
	else
		read_on(p);
}

static struct agent_process *make(struct agent_client *c, const char *id, const struct agent_process_ops *ops, void *user)
{
	struct agent_process *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	p->id = strdup(id);
	if (!p->id) {
		free(p);
		return NULL;
	}
	p->client = c;
	p->ops = *ops;
	p->user = user;
	agent_client_add_process(c, &p->link);
	return p;
}

struct agent_process *agent_process_exec(struct agent_client *c, const Edera__Agent__V1__ExecRequest *r, const struct agent_process_ops *ops, void *user)
{
	struct agent_process *p = make(c, r->id, ops, user);

	if (!p)
		return NULL;
	p->exec = agent_call_start(c, "Exec", &r->base, 0, on_exec, p);
	if (!p->exec) {
		agent_process_free(p, false);
		return NULL;
	}
	read_on(p); /* goes out right behind it, which saves a round trip */
	return p;
}

struct agent_process *agent_process_open(struct agent_client *c, const char *id, const struct agent_offsets *from, const struct agent_process_ops *ops,
					 void *user)
{
	struct agent_process *p = make(c, id, ops, user);

	if (!p)
		return NULL;
	p->from_oldest = !from;
	if (from) {
		p->out = from->out;
		p->err = from->err;
	}
	p->in_unknown = true;
	read_on(p);
	return p;
}

void agent_process_free(struct agent_process *p, bool release)
{
	Edera__Agent__V1__ReleaseRequest r = EDERA__AGENT__V1__RELEASE_REQUEST__INIT;

	if (!p || p->freed)
		return;
	p->freed = true;
	agent_call_cancel(p->exec);
	agent_call_cancel(p->read);
	agent_call_cancel(p->write);
	p->exec = p->read = p->write = NULL;
	if (!p->done)
		agent_client_remove_process(p->client, &p->link);
	p->done = true;
	if (release && p->client) {
		r.id = p->id;
		agent_call(p->client, "Release", &r.base, RELEASE_TIMEOUT_MS, ignore, NULL);
	}
	if (!p->depth)
		destroy(p);
}
