/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pump.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "cli/fdwatch.h"
#include "cli/guard.h"
#include "cli/terminal.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define QUEUE_HIGH (256u << 10) /* queued bytes of output that stop the stream */
#define INPUT_CHUNK (32u << 10)
#define DETACH 0x1d /* Ctrl+] */

enum { SIG_WINCH, SIG_CONT, SIG_INT, SIG_TERM, SIG_HUP, N_SIGNALS };
static const int signals[N_SIGNALS] = { SIGWINCH, SIGCONT, SIGINT, SIGTERM, SIGHUP };

struct sink {
	int fd;
	bool is_file, gone;
	struct buf queue;
	struct fdwatch watch;
	struct guard guard;
	bool guarded;
};

struct pump {
	struct cli *cli;
	const struct pump_spec *spec;
	struct grpc_stream *stream; /* NULL once done */
	struct sink out, err;
	struct fdwatch input;
	bool input_open, raw, paused, finished;
	uv_signal_t signal[N_SIGNALS];
	int open_signals;
	enum rpc_status status;
	char *message;
	struct pump_result result;
	int failure; /* errno of a write to stdout */
};

static void end_stream(struct pump *p)
{
	p->finished = true;
	if (p->stream)
		grpc_stream_cancel(p->stream);
}

/* ---- output ---- */

static void flow(struct pump *p)
{
	bool full = p->out.queue.len > QUEUE_HIGH || p->err.queue.len > QUEUE_HIGH;

	if (!p->stream || full == p->paused)
		return;
	p->paused = full;
	if (full)
		grpc_stream_pause(p->stream);
	else
		grpc_stream_resume(p->stream);
}

static void sink_failed(struct pump *p, struct sink *s, int e)
{
	s->gone = true;
	buf_clear(&s->queue);
	fdwatch_pause(&s->watch);
	/* Without stderr the output is still of use; without stdout nothing is. */
	if (s != &p->out)
		return;
	p->failure = e;
	end_stream(p);
}

/* Writes what the descriptor takes without blocking. A pipe or a terminal that polls as writable takes a page. */
static void sink_flush(struct pump *p, struct sink *s)
{
	size_t done = 0;

	while (!s->gone && done < s->queue.len) {
		struct pollfd pf = { .fd = s->fd, .events = POLLOUT };
		size_t n = s->queue.len - done;
		ssize_t w;

		if (!s->is_file) {
			if (poll(&pf, 1, 0) <= 0)
				break;
			if (n > PIPE_BUF)
				n = PIPE_BUF;
		}
		w = write(s->fd, s->queue.data + done, n);
		if (w < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				break;
			sink_failed(p, s, errno);
			return;
		}
		done += (size_t)w;
	}
	if (s->gone)
		return;
	buf_consume(&s->queue, done);
	fdwatch_want(&s->watch, s->queue.len ? EPOLLOUT : 0);
}

static void on_sink(struct fdwatch *w, uint32_t events)
{
	struct pump *p = w->user;
	struct sink *s = w == &p->out.watch ? &p->out : &p->err;

	if (events & (EPOLLERR | EPOLLHUP) && !(events & EPOLLOUT && s->queue.len)) {
		sink_failed(p, s, EPIPE);
		return;
	}
	sink_flush(p, s);
	flow(p);
}

static int sink_open(struct pump *p, struct sink *s, int fd)
{
	struct stat st;
	int r;

	s->fd = fd;
	s->is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	s->guarded = p->spec->guard && isatty(fd);
	r = fdwatch_open(&s->watch, &p->cli->loop, fd, on_sink, p);
	if (!r)
		fdwatch_want(&s->watch, 0); /* a reader that leaves is told of even while there is nothing to write */
	return r;
}

void pump_output(struct pump *p, int fd, const void *data, size_t n)
{
	struct sink *s = fd == STDERR_FILENO ? &p->err : &p->out;

	if (!n || s->gone)
		return;
	if (s->guarded)
		guard_filter(&s->guard, data, n, &s->queue);
	else
		buf_append(&s->queue, data, n);
	if (s->queue.failed)
		need(NULL);
	sink_flush(p, s);
	flow(p);
}

void pump_finish(struct pump *p, int value)
{
	p->result.value = value;
	end_stream(p);
}

/* ---- input ---- */

static void input_ended(struct pump *p)
{
	p->input_open = false;
	fdwatch_pause(&p->input);
	if (p->stream)
		p->spec->send_input(p->stream, NULL, 0, p->spec->user);
}

static void on_input(struct fdwatch *w, uint32_t events)
{
	struct pump *p = w->user;
	uint8_t chunk[INPUT_CHUNK];
	const uint8_t *detach;
	ssize_t n;

	if (!p->stream) {
		fdwatch_pause(w);
		return;
	}
	if (!grpc_stream_writable(p->stream)) {
		fdwatch_pause(w); /* on_writable goes on */
		return;
	}
	n = read(STDIN_FILENO, chunk, sizeof chunk);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		input_ended(p);
		return;
	}
	detach = p->raw ? memchr(chunk, DETACH, (size_t)n) : NULL;
	if (detach)
		n = detach - chunk;
	if (n && p->spec->send_input(p->stream, chunk, (size_t)n, p->spec->user) && !detach)
		fdwatch_pause(w);
	if (detach) {
		p->result.end = PUMP_DETACHED;
		end_stream(p);
	}
}

/* ---- the stream ---- */

static void on_message(struct grpc_stream *s, const ProtobufCMessage *m, void *user)
{
	struct pump *p = user;

	if (!p->finished)
		p->spec->reply(p, m, p->spec->user);
}

static void on_writable(struct grpc_stream *s, void *user)
{
	struct pump *p = user;

	if (p->input_open)
		fdwatch_want(&p->input, EPOLLIN);
}

static void on_done(struct grpc_stream *s, enum rpc_status status, const char *message, void *user)
{
	struct pump *p = user;

	p->stream = NULL;
	p->status = status;
	p->message = need(strdup(message));
}

/* ---- signals ---- */

static void send_size(struct pump *p)
{
	uint32_t rows, columns;

	if (p->stream && p->spec->send_size && terminal_size(&rows, &columns))
		p->spec->send_size(p->stream, rows, columns, p->spec->user);
}

static void on_signal(uv_signal_t *h, int sig)
{
	struct pump *p = h->data;

	if (sig == SIGWINCH) {
		send_size(p);
	} else if (sig == SIGCONT) {
		/* Whoever stopped us, a shell has used the terminal since. */
		if (p->raw)
			terminal_raw();
		send_size(p);
	} else {
		p->result = (struct pump_result){ PUMP_SIGNAL, sig };
		end_stream(p);
	}
}

static void on_signal_closed(uv_handle_t *h)
{
	((struct pump *)h->data)->open_signals--;
}

/* ---- life ---- */

struct pump *pump_open(struct cli *cli, const struct pump_spec *spec, struct edera_error *err)
{
	static const struct grpc_stream_ops ops = { on_message, on_writable, on_done };
	struct pump *p;
	int r = cli_connect(cli, err);

	if (r)
		return NULL;
	p = need(calloc(1, sizeof *p));
	p->cli = cli;
	p->spec = spec;
	r = sink_open(p, &p->out, STDOUT_FILENO);
	if (!r)
		r = sink_open(p, &p->err, STDERR_FILENO);
	if (!r && spec->send_input)
		r = fdwatch_open(&p->input, &cli->loop, STDIN_FILENO, on_input, p);
	if (r) {
		err_errno(err, r, "cannot use stdin, stdout or stderr");
		pump_close(p);
		return NULL;
	}
	for (int i = 0; i < N_SIGNALS; i++) {
		uv_signal_init(&cli->loop, &p->signal[i]);
		p->signal[i].data = p;
		uv_signal_start(&p->signal[i], on_signal, signals[i]);
		p->open_signals++;
	}
	p->stream = grpc_client_open(cli->client, cli_service(spec->service), spec->method, 0, &ops, p);
	if (!p->stream) {
		err_set(err, -ENOMEM, "cannot open a call to the daemon");
		pump_close(p);
		return NULL;
	}
	grpc_stream_send(p->stream, spec->first);
	if (!spec->send_input && !spec->hold_open)
		grpc_stream_half_close(p->stream);
	return p;
}

static bool is_flushed(const struct pump *p)
{
	return (p->out.gone || !p->out.queue.len) && (p->err.gone || !p->err.queue.len);
}

int pump_run(struct pump *p, struct pump_result *ret, struct edera_error *err)
{
	p->raw = p->spec->raw && p->spec->send_input && terminal_raw();
	if (p->spec->send_input && p->stream) {
		p->input_open = true;
		fdwatch_want(&p->input, EPOLLIN);
		if (p->raw)
			send_size(p);
	}
	/* A signal or a detached terminal does not wait for a reader who may be what is stuck. */
	while (p->stream || (!is_flushed(p) && p->result.end == PUMP_DONE))
		uv_run(&p->cli->loop, UV_RUN_ONCE);
	terminal_restore();
	*ret = p->result;
	if (p->failure == EPIPE) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	if (p->failure)
		return err_errno(err, -p->failure, "cannot write the output");
	if (!p->finished && p->status)
		return cli_status_error(err, p->status, p->spec->method, p->message);
	return 0;
}

static void sink_close(struct sink *s)
{
	fdwatch_close(&s->watch);
	buf_free(&s->queue);
}

void pump_close(struct pump *p)
{
	if (!p)
		return;
	end_stream(p);
	while (p->stream)
		uv_run(&p->cli->loop, UV_RUN_ONCE);
	for (int i = 0, n = p->open_signals; i < n; i++)
		uv_close((uv_handle_t *)&p->signal[i], on_signal_closed);
	sink_close(&p->out);
	sink_close(&p->err);
	fdwatch_close(&p->input);
	while (p->open_signals || p->out.watch.open || p->err.watch.open || p->input.open)
		uv_run(&p->cli->loop, UV_RUN_ONCE);
	free(p->message);
	free(p);
}

int pump_whole(struct cli *cli, const struct pump_spec *spec, struct pump_result *ret, struct edera_error *err)
{
	struct pump *p = pump_open(cli, spec, err);
	int r;

	if (!p)
		return err->code ? err->code : -EIO;
	r = pump_run(p, ret, err);
	pump_close(p);
	if (!r && ret->end == PUMP_SIGNAL)
		return 128 + ret->value;
	return r;
}
