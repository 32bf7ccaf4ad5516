/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "stream.h"
#include "workload.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define READ_MAX (64u << 10)
#define WAIT_MAX_MS 60000
#define N_TOKENS 8
/* How long after a process's end those it left behind may still add to its output. */
#define LINGER_MS 250

/* One call that waits for something to happen to the process. */
struct waiter {
	bool waiting;
	struct caller from;
	uv_timer_t timer;
	union {
		struct { uint64_t offset[2]; uint32_t max[2]; bool from_oldest; } read;
		struct { uint64_t offset, len; } write;
	};
};

struct process {
	struct process *prev, *next;
	struct agent *a;
	struct workload *workload;
	char id[ID_CAP];
	pid_t pid;
	bool running, ended, freed;
	int status;              /* of wait, once ended */
	uint64_t oom_before;
	struct output out[2];
	struct input in;
	int tty;                 /* master, for its size; borrowed from out[0]; -1 */
	struct waiter read, write, wait;
	uv_timer_t linger;
	int handles;
	uint64_t tokens[N_TOKENS];
	unsigned next_token;
	void (*on_end)(void *user);
	void *on_end_user;
};

struct process *process_find(struct agent *a, const char *id)
{
	for (struct process *p = a->processes; p; p = p->next)
		if (!strcmp(p->id, id))
			return p;
	return NULL;
}

struct process *process_next(struct agent *a, const struct process *after)
{
	return after ? after->next : a->processes;
}

const char *process_id(const struct process *p) { return p->id; }
struct workload *process_workload(const struct process *p) { return p->workload; }
bool process_running(const struct process *p) { return p->running; }
bool process_ended(const struct process *p) { return p->ended; }
pid_t process_pid(const struct process *p) { return p->pid; }

/* ---- waiters ---- */

static void serve_read(struct process *, bool timed_out);
static void serve_write(struct process *, bool timed_out);
static void serve_wait(struct process *, bool timed_out);

static void on_read_timeout(uv_timer_t *t) { serve_read(t->data, true); }
static void on_write_timeout(uv_timer_t *t) { serve_write(t->data, true); }
static void on_wait_timeout(uv_timer_t *t) { serve_wait(t->data, true); }

/* A newer call takes the place of an older one, whose caller has given up or sits behind a connection that is gone. */
static void begin_wait(struct waiter *w, struct caller from, uint32_t ms, uv_timer_cb timeout)
{
	w->waiting = true;
	w->from = from;
	uv_timer_start(&w->timer, timeout, ms < WAIT_MAX_MS ? ms : WAIT_MAX_MS, 0);
}

static void end_wait(struct waiter *w)
{
	w->waiting = false;
	uv_timer_stop(&w->timer);
}

void process_exit_info(const struct process *p, Edera__Agent__V1__Exit *e)
{
	edera__agent__v1__exit__init(e);
	if (WIFSIGNALED(p->status)) {
		e->signal = WTERMSIG(p->status);
		e->code = 128 + e->signal;
	} else {
		e->code = WEXITSTATUS(p->status);
	}
	if (p->workload)
		e->oom = workload_oom(p->workload);
	else
		e->oom = e->signal == SIGKILL && p->a->cgroups && cgroup_number(CGROUP_EXEC, "memory.events", "oom_kill") > p->oom_before;
}

/* Fills one stream's part of an answer; returns whether the host has all there will ever be of it. */
static bool read_part(const struct output *o, uint64_t offset, uint32_t max, ProtobufCBinaryData *ret, protobuf_c_boolean *ret_eof)
{
	uint64_t there = o->ring.end - offset;
	size_t n = there < max ? (size_t)there : max;

	if (n)
		ret->data = malloc(n);
	ret->len = ret->data ? ring_copy(&o->ring, offset, ret->data, n) : 0;
	*ret_eof = max && output_eof(o) && ret->len == there;
	return *ret_eof || !max;
}

static void serve_read(struct process *p, bool timed_out)
{
	Edera__Agent__V1__ReadReply r = EDERA__AGENT__V1__READ_REPLY__INIT;
	struct waiter *w = &p->read;
	Edera__Agent__V1__Exit e;
	bool all;

	if (!w->waiting)
		return;
	if (!service_writable(p->a) && !timed_out) {
		p->a->starved = true; /* process_serve_all comes when the host has taken what is on its way */
		return;
	}
	r.stdout_offset = w->read.offset[0];
	r.stderr_offset = w->read.offset[1];
	all = read_part(&p->out[0], r.stdout_offset, w->read.max[0], &r.stdout, &r.stdout_eof);
	all = read_part(&p->out[1], r.stderr_offset, w->read.max[1], &r.stderr, &r.stderr_eof) && all;
	if (all && p->ended) {
		process_exit_info(p, &e);
		r.exit = &e;
	}
	if (r.stdout.len || r.stderr.len || r.exit || timed_out) {
		end_wait(w);
		caller_reply(p->a, w->from, &r.base);
	}
	free(r.stdout.data);
	free(r.stderr.data);
}

static void serve_write(struct process *p, bool timed_out)
{
	Edera__Agent__V1__WriteReply r = EDERA__AGENT__V1__WRITE_REPLY__INIT;
	struct waiter *w = &p->write;
	uint64_t end = w->write.offset + w->write.len;

	if (!w->waiting)
		return;
	r.closed = !p->in.watch;
	r.accepted_offset = r.closed && p->in.accepted < end ? end : p->in.accepted;
	if (r.closed || r.accepted_offset > w->write.offset || !w->write.len || timed_out) {
		end_wait(w);
		caller_reply(p->a, w->from, &r.base);
	}
}

static void serve_wait(struct process *p, bool timed_out)
{
	Edera__Agent__V1__WaitReply r = EDERA__AGENT__V1__WAIT_REPLY__INIT;
	Edera__Agent__V1__Exit e;

	if (!p->wait.waiting || (!p->ended && !timed_out))
		return;
	if (p->ended) {
		process_exit_info(p, &e);
		r.exit = &e;
	}
	end_wait(&p->wait);
	caller_reply(p->a, p->wait.from, &r.base);
}

static void on_output(void *user)
{
	serve_read(user, false);
}

/* Room in the queue: what the waiting call brought is sent again by its caller, who learns here how far we are. */
static void on_input(void *user)
{
	struct process *p = user;

	if (p->write.waiting && (!p->in.watch || p->in.queue.len < INPUT_MAX))
		serve_write(p, true);
}

void process_serve_all(struct agent *a)
{
	for (struct process *p = a->processes; p; p = p->next)
		serve_read(p, false);
}

/* ---- life ---- */

struct process *process_new(struct agent *a, const char *id, struct workload *w, struct edera_error *err)
{
	struct process *p;

	if (!agent_valid_id(id)) {
		err_set(err, -EINVAL, "'%s' cannot name a process: 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with . or -", id);
		return NULL;
	}
	if (a->n_processes >= MAX_PROCESSES) {
		err_set(err, -ENOSPC, "the zone keeps at most %d processes; release some", MAX_PROCESSES);
		return NULL;
	}
	p = calloc(1, sizeof *p);
	if (!p) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	p->a = a;
	p->workload = w;
	p->tty = -1;
	snprintf(p->id, sizeof p->id, "%s", id);
	uv_timer_init(a->loop, &p->read.timer);
	uv_timer_init(a->loop, &p->write.timer);
	uv_timer_init(a->loop, &p->wait.timer);
	uv_timer_init(a->loop, &p->linger);
	p->handles = 4;
	p->read.timer.data = p->write.timer.data = p->wait.timer.data = p->linger.data = p;
	for (int i = 0; i < 2; i++) {
		p->out[i].changed = on_output;
		p->out[i].user = p;
	}
	p->in.changed = on_input;
	p->in.user = p;
	p->next = a->processes;
	if (p->next)
		p->next->prev = p;
	a->processes = p;
	a->n_processes++;
	return p;
}

static int fail_io(struct process *p, int code, struct edera_error *err)
{
	return err_errno(err, code, "cannot open the streams of '%s'", p->id);
}

int process_open_io(struct process *p, bool want_stdin, int ret_child[3], struct edera_error *err)
{
	int child[3] = { -1, -1, -1 }, r = 0, fds[2];

	for (int i = 0; i < 3 && !r; i++) {
		if (i == 0 && !want_stdin)
			continue;
		if (pipe2(fds, O_CLOEXEC) < 0) {
			r = -errno;
			break;
		}
		child[i] = fds[i ? 1 : 0];
		r = i ? output_open(&p->out[i - 1], p->a, fds[0]) : input_open(&p->in, p->a, fds[1], false);
	}
	if (r) {
		for (int i = 0; i < 3; i++)
			if (child[i] >= 0)
				close(child[i]);
		return fail_io(p, r, err);
	}
	memcpy(ret_child, child, sizeof child);
	return 0;
}

static void set_size(int fd, const Protect__Control__V1__TerminalSize *size)
{
	struct winsize ws = { .ws_row = 24, .ws_col = 80 };

	if (size && size->rows && size->columns) {
		ws.ws_row = (unsigned short)(size->rows < 10000 ? size->rows : 10000);
		ws.ws_col = (unsigned short)(size->columns < 10000 ? size->columns : 10000);
	}
	ioctl(fd, TIOCSWINSZ, &ws);
}

int process_adopt_tty(struct process *p, int master, const Protect__Control__V1__TerminalSize *size, struct edera_error *err)
{
	int in = fcntl(master, F_DUPFD_CLOEXEC, 3), r;

	set_size(master, size);
	r = output_open(&p->out[0], p->a, master);
	if (!r)
		p->tty = master;
	if (in < 0)
		r = -errno;
	else if (r)
		close(in);
	else
		r = input_open(&p->in, p->a, in, true);
	return r ? fail_io(p, r, err) : 0;
}

int process_open_tty(struct process *p, const Protect__Control__V1__TerminalSize *size, int *ret_slave, struct edera_error *err)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0, slave = -1, r;

	if (master >= 0 && !ioctl(master, TIOCSPTLCK, &unlock))
		slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0) {
		r = -errno;
		if (master >= 0)
			close(master);
		return fail_io(p, r, err);
	}
	r = process_adopt_tty(p, master, size, err);
	if (r)
		close(slave);
	else
		*ret_slave = slave;
	return r;
}

static void on_linger(uv_timer_t *t)
{
	struct process *p = t->data;

	output_finish(&p->out[0]);
	output_finish(&p->out[1]);
	serve_read(p, false);
}

static void on_exit_status(void *user, int status)
{
	struct process *p = user;

	p->running = false;
	p->ended = true;
	p->status = status;
	if (p->workload && workload_main(p->workload) == p)
		workload_ending(p->workload);
	input_close(&p->in);
	serve_write(p, true);
	serve_wait(p, false);
	/* What it wrote is in the pipes. They end by themselves unless somebody it started still has them open. */
	uv_timer_start(&p->linger, on_linger, LINGER_MS, 0);
	serve_read(p, false);
	if (p->on_end)
		p->on_end(p->on_end_user);
}

void process_started(struct process *p, pid_t pid)
{
	p->pid = pid;
	p->running = true;
	if (!p->workload && p->a->cgroups)
		p->oom_before = cgroup_number(CGROUP_EXEC, "memory.events", "oom_kill");
	output_start(&p->out[0]);
	output_start(&p->out[1]);
	reaper_watch(pid, on_exit_status, p);
}

void process_on_end(struct process *p, void (*fn)(void *), void *user)
{
	p->on_end = fn;
	p->on_end_user = user;
}

/* Everything whose session is that of `sid`. */
static void kill_session(pid_t sid, int signal)
{
	_closedir_ DIR *d = opendir("/proc");
	struct dirent *e;
	char path[PATH_CAP];
	uint64_t pid;

	while (d && (e = readdir(d))) {
		_buf_ struct buf b = BUF_INIT;
		const char *tail;
		int session;

		if (text_parse_u64(e->d_name, 2, INT32_MAX, &pid) || path_format(path, NULL, "/proc/%s/stat", e->d_name) ||
		    path_read_file(path, 4096, &b, NULL))
			continue;
		tail = strrchr((char *)b.data, ')'); /* the name before it may hold anything */
		if (tail && sscanf(tail + 1, " %*c %*d %*d %d", &session) == 1 && session == sid)
			kill((pid_t)pid, signal);
	}
}

void process_kill(struct process *p, int signal, bool session)
{
	if (!p->running)
		return;
	if (session)
		kill_session(p->pid, signal);
	kill(p->pid, signal);
}

bool processes_running(const struct agent *a)
{
	for (const struct process *p = a->processes; p; p = p->next)
		if (p->running)
			return true;
	return false;
}

void processes_signal(struct agent *a, int signal)
{
	for (struct process *p = a->processes; p; p = p->next)
		process_kill(p, signal, true);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct process *p = h->data;

	if (!--p->handles)
		free(p);
}

static void fail_waiter(struct process *p, struct waiter *w)
{
	struct edera_error err = EDERA_ERROR_INIT;

	if (!w->waiting)
		return;
	end_wait(w);
	err_set(&err, -ENOENT, "the process '%s' was released", p->id);
	caller_fail(p->a, w->from, &err);
}

void process_free(struct process *p)
{
	reaper_forget(p);
	fail_waiter(p, &p->read);
	fail_waiter(p, &p->write);
	fail_waiter(p, &p->wait);
	for (int i = 0; i < 2; i++) {
		output_close(&p->out[i]);
		ring_free(&p->out[i].ring);
	}
	input_close(&p->in);
	if (p->prev)
		p->prev->next = p->next;
	else
		p->a->processes = p->next;
	if (p->next)
		p->next->prev = p->prev;
	p->a->n_processes--;
	uv_close((uv_handle_t *)&p->read.timer, on_handle_closed);
	uv_close((uv_handle_t *)&p->write.timer, on_handle_closed);
	uv_close((uv_handle_t *)&p->wait.timer, on_handle_closed);
	uv_close((uv_handle_t *)&p->linger, on_handle_closed);
}

/* ---- calls ---- */

static struct process *find_for(struct agent *a, const char *id, struct caller from)
{
	struct process *p = process_find(a, id);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!p) {
		err_set(&err, -ENOENT, "there is no process '%s' in the zone", id);
		caller_fail(a, from, &err);
	}
	return p;
}

void process_read(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__ReadRequest *q = (const Edera__Agent__V1__ReadRequest *)m;
	uint64_t offset[2] = { q->stdout_offset, q->stderr_offset };
	uint32_t max[2] = { q->stdout_max, q->stderr_max };
	struct process *p = find_for(a, q->id, from);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!p)
		return;
	for (int i = 0; i < 2; i++) {
		struct ring *r = &p->out[i].ring;

		if (q->from_oldest)
			offset[i] = r->base;
		if (!max[i]) {
			offset[i] = r->end;
		} else if (offset[i] < r->base || offset[i] > r->end) {
			err_set(&err, -ERANGE, "the zone holds the output of '%s' from %llu to %llu, not from %llu", p->id, (unsigned long long)r->base,
				(unsigned long long)r->end, (unsigned long long)offset[i]);
			caller_fail(a, from, &err);
			return;
		} else {
			output_release(&p->out[i], offset[i]);
		}
		p->read.read.offset[i] = offset[i];
		p->read.read.max[i] = max[i] < READ_MAX ? max[i] : READ_MAX;
	}
	begin_wait(&p->read, from, q->wait_ms, on_read_timeout);
	serve_read(p, !q->wait_ms);
}

void process_write(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__WriteRequest *q = (const Edera__Agent__V1__WriteRequest *)m;
	struct process *p = find_for(a, q->id, from);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!p)
		return;
	if (q->offset + q->data.len < q->offset || input_take(&p->in, q->offset, q->data.data, q->data.len, q->eof)) {
		err_set(&err, -ERANGE, "the zone has the input of '%s' up to %llu; what comes next must begin there", p->id, (unsigned long long)p->in.accepted);
		caller_fail(a, from, &err);
		return;
	}
	p->write.write.offset = q->offset;
	p->write.write.len = q->data.len;
	begin_wait(&p->write, from, q->wait_ms, on_write_timeout);
	serve_write(p, !q->wait_ms);
}

void process_resize(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__ResizeRequest *q = (const Edera__Agent__V1__ResizeRequest *)m;
	Edera__Agent__V1__ResizeReply r = EDERA__AGENT__V1__RESIZE_REPLY__INIT;
	struct process *p = find_for(a, q->id, from);

	if (!p)
		return;
	if (p->tty >= 0 && p->out[0].watch)
		set_size(p->tty, q->size);
	caller_reply(a, from, &r.base);
}

void process_signal(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__SignalRequest *q = (const Edera__Agent__V1__SignalRequest *)m;
	Edera__Agent__V1__SignalReply r = EDERA__AGENT__V1__SIGNAL_REPLY__INIT;
	struct process *p = find_for(a, q->id, from);
	struct edera_error err = EDERA_ERROR_INIT;
	int signal = q->signal;

	if (!p)
		return;
	if (q->signal < 0 || q->signal > 64) {
		err_set(&err, -EINVAL, "%d is not a signal", q->signal);
		caller_fail(a, from, &err);
		return;
	}
	if (!signal)
		signal = p->workload && workload_main(p->workload) == p ? workload_stop_signal(p->workload) : SIGTERM;
	r.delivered = p->running;
	for (int i = 0; q->token && i < N_TOKENS; i++)
		if (p->tokens[i] == q->token)
			goto out;
	p->tokens[p->next_token++ % N_TOKENS] = q->token;
	if (q->all && p->workload && workload_main(p->workload) == p)
		workload_kill_all(p->workload, signal);
	else
		process_kill(p, signal, q->all);
out:
	caller_reply(a, from, &r.base);
}

void process_wait(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__WaitRequest *q = (const Edera__Agent__V1__WaitRequest *)m;
	struct process *p = find_for(a, q->id, from);

	if (!p)
		return;
	begin_wait(&p->wait, from, q->wait_ms, on_wait_timeout);
	serve_wait(p, !q->wait_ms);
}

void process_release(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__ReleaseRequest *q = (const Edera__Agent__V1__ReleaseRequest *)m;
	Edera__Agent__V1__ReleaseReply r = EDERA__AGENT__V1__RELEASE_REPLY__INIT;
	struct process *p = process_find(a, q->id);
	struct edera_error err = EDERA_ERROR_INIT;

	if (p && p->workload && workload_main(p->workload) == p) {
		err_set(&err, -EBUSY, "'%s' is a workload; it goes with DeleteWorkload", p->id);
		caller_fail(a, from, &err);
		return;
	}
	if (p && exec_release(p)) /* still being started: it goes as soon as that is over */
		p = NULL;
	if (p) {
		process_kill(p, SIGKILL, true);
		process_free(p);
	}
	caller_reply(a, from, &r.base);
}

void process_list(struct agent *a, Edera__Agent__V1__ListReply *reply)
{
	reply->processes = calloc(a->n_processes + 1, sizeof *reply->processes);
	for (struct process *p = a->processes; p && reply->processes; p = p->next) {
		Edera__Agent__V1__ProcessInfo *i = malloc(sizeof *i);

		if (!i)
			break;
		edera__agent__v1__process_info__init(i);
		i->id = strdup(p->id);
		i->workload_id = strdup(p->workload ? workload_id(p->workload) : "");
		i->pid = p->running ? p->pid : 0;
		i->stdout_base = p->out[0].ring.base;
		i->stdout_end = p->out[0].ring.end;
		i->stderr_base = p->out[1].ring.base;
		i->stderr_end = p->out[1].ring.end;
		i->stdin_offset = p->in.accepted;
		if (p->ended && (i->exit = malloc(sizeof *i->exit)))
			process_exit_info(p, i->exit);
		reply->processes[reply->n_processes++] = i;
	}
}
