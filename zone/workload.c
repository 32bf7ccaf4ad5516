/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "bundle.h"
#include "container.h"
#include "crun.h"
#include "process.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KILL_AGAIN_MS 200

struct workload {
	struct workload *prev, *next;
	struct agent *a;
	char id[ID_CAP], dir[PATH_CAP], cgroup[PATH_CAP];
	int phase;                      /* Edera__Agent__V1__WorkloadPhase */
	Edera__Agent__V1__CreateWorkloadRequest *q;
	struct process *main;
	json_object *process;           /* of its config.json */
	int stop_signal;
	struct disk_wait *disks;
	size_t disk;                    /* the one waited for: 0 the image, then those of q->mounts */
	int fds[3], console;
	struct strain strain;
	bool in_crun, known_to_crun, oom;
	struct callers creating, starting, deleting;
	uv_timer_t again;               /* kills what did not die at once */
};

enum {
	CREATING = EDERA__AGENT__V1__WORKLOAD_PHASE__WORKLOAD_PHASE_CREATING,
	CREATED = EDERA__AGENT__V1__WORKLOAD_PHASE__WORKLOAD_PHASE_CREATED,
	RUNNING = EDERA__AGENT__V1__WORKLOAD_PHASE__WORKLOAD_PHASE_RUNNING,
	STOPPED = EDERA__AGENT__V1__WORKLOAD_PHASE__WORKLOAD_PHASE_STOPPED,
	DELETING = EDERA__AGENT__V1__WORKLOAD_PHASE__WORKLOAD_PHASE_DELETING,
};

struct workload *workload_find(struct agent *a, const char *id)
{
	for (struct workload *w = a->workloads; w; w = w->next)
		if (!strcmp(w->id, id))
			return w;
	return NULL;
}

struct workload *workload_next(struct agent *a, const struct workload *after)
{
	return after ? after->next : a->workloads;
}

const char *workload_id(const struct workload *w) { return w->id; }
struct process *workload_main(const struct workload *w) { return w->main; }
bool workload_running(const struct workload *w) { return w->phase == RUNNING; }
bool workload_oom(const struct workload *w) { return w->oom; }
int workload_oom_score_adj(const struct workload *w) { return w->q->oom_score_adj; }
struct strain *workload_strain(struct workload *w) { return &w->strain; }
const char *workload_cgroup(const struct workload *w) { return w->cgroup; }
int workload_stop_signal(const struct workload *w) { return w->stop_signal; }

static void fail_caller(struct agent *a, struct caller from, int code, const char *id, const char *why)
{
	struct edera_error err = EDERA_ERROR_INIT;

	err_set(&err, code, "the workload '%s' %s", id, why);
	caller_fail(a, from, &err);
}

/* ---- deleting ---- */

static void delete_on(struct workload *);

static void write_kill(const struct workload *w)
{
	char path[PATH_CAP];
	_close_ int fd = -1;

	if (!w->a->cgroups || path_format(path, NULL, "%s/cgroup.kill", w->cgroup))
		return;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "1", 1) < 0)
		log_warning("cannot kill a workload's control group", "workload", w->id, NULL);
}

void workload_kill_all(struct workload *w, int signal)
{
	if (signal == SIGKILL)
		write_kill(w);
	for (struct process *p = process_next(w->a, NULL); p; p = process_next(w->a, p))
		if (process_workload(p) == w)
			process_kill(p, signal, true);
}

void workload_oom_kill(struct workload *w)
{
	w->oom = true;
	workload_kill_all(w, SIGKILL);
}

static void free_workload(uv_handle_t *h)
{
	free(h->data);
}

static void forget(struct workload *w)
{
	struct agent *a = w->a;

	for (struct process *p = process_next(a, NULL), *next; p; p = next) {
		next = process_next(a, p);
		if (process_workload(p) == w)
			process_free(p);
	}
	bundle_remove(w->dir, w->q->n_mounts);
	disk_wait_cancel(w->disks);
	json_object_put(w->process);
	protobuf_c_message_free_unpacked(&w->q->base, NULL);
	if (w->prev)
		w->prev->next = w->next;
	else
		a->workloads = w->next;
	if (w->next)
		w->next->prev = w->prev;
	a->n_workloads--;
	uv_close((uv_handle_t *)&w->again, free_workload);
}

static void on_crun_delete(void *user, const struct edera_error *err)
{
	Edera__Agent__V1__DeleteWorkloadReply r = EDERA__AGENT__V1__DELETE_WORKLOAD_REPLY__INIT;
	struct workload *w = user;
	struct callers callers = w->deleting;
	struct agent *a = w->a;

	if (err)
		log_warning(err->msg, "workload", w->id, NULL);
	w->deleting = (struct callers){ 0 };
	forget(w);
	callers_reply(a, &callers, &r.base);
}

static void on_again(uv_timer_t *t)
{
	delete_on(t->data);
}

static bool any_running(const struct workload *w)
{
	for (struct process *p = process_next(w->a, NULL); p; p = process_next(w->a, p))
		if (process_workload(p) == w && process_running(p))
			return true;
	return false;
}

/* One step towards being gone; comes again when crun is done or after a moment. */
static void delete_on(struct workload *w)
{
	const char *args[] = { "delete", "--force", w->id, NULL };
	struct edera_error err = EDERA_ERROR_INIT;
	int none[3] = { -1, -1, -1 };

	if (w->in_crun)
		return;
	if (any_running(w)) {
		workload_kill_all(w, SIGKILL);
		uv_timer_start(&w->again, on_again, KILL_AGAIN_MS, 0);
		return;
	}
	if (w->known_to_crun) {
		w->known_to_crun = false;
		w->in_crun = true;
		if (!crun_start(w->a, args, none, on_crun_delete, w, &err))
			return;
	}
	on_crun_delete(w, err.code ? &err : NULL);
}

static void begin_delete(struct workload *w)
{
	w->phase = DELETING;
	disk_wait_cancel(steal_ptr(w->disks));
	delete_on(w);
}

void workload_delete(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__DeleteWorkloadRequest *q = (const Edera__Agent__V1__DeleteWorkloadRequest *)m;
	Edera__Agent__V1__DeleteWorkloadReply r = EDERA__AGENT__V1__DELETE_WORKLOAD_REPLY__INIT;
	struct workload *w = workload_find(a, q->id);

	if (!w) {
		caller_reply(a, from, &r.base);
		return;
	}
	callers_add(&w->deleting, from);
	if (w->phase != DELETING)
		begin_delete(w);
}

/* ---- its end ---- */

static void on_main_end(void *user)
{
	struct workload *w = user;

	if (w->phase == RUNNING || w->phase == CREATED)
		w->phase = STOPPED;
	if (w->phase == DELETING)
		uv_timer_start(&w->again, on_again, 0, 0);
}

/* Before the answer that tells of the end is made. */
void workload_ending(struct workload *w)
{
	w->oom = w->oom || (w->a->cgroups && cgroup_number(w->cgroup, "memory.events", "oom_kill") > 0);
}

/* ---- creating ---- */

static void fail_create(struct workload *w, const struct edera_error *err)
{
	callers_fail(w->a, &w->creating, err);
	begin_delete(w);
}

static void on_crun_create(void *user, const struct edera_error *failed)
{
	Edera__Agent__V1__CreateWorkloadReply r = EDERA__AGENT__V1__CREATE_WORKLOAD_REPLY__INIT;
	struct edera_error err = EDERA_ERROR_INIT;
	struct workload *w = user;
	char path[PATH_CAP];
	int master;

	w->in_crun = false;
	if (failed)
		err = *failed;
	if (!failed && !path_format(path, &err, "%s/pid", w->dir) && !(r.pid = crun_pid(path)))
		err_set(&err, -EIO, "crun create did not say what it started");
	if (w->console >= 0 && !path_format(path, &err, "%s/tty", w->dir)) {
		int listener = steal_fd(&w->console);

		if (!crun_console_take(listener, path, &master, err.code ? NULL : &err) && !err.code)
			process_adopt_tty(w->main, master, w->q->process->terminal_size, &err);
	}
	if (r.pid) {
		w->known_to_crun = true;
		process_on_end(w->main, on_main_end, w);
		process_started(w->main, r.pid);
	}
	if (w->phase == DELETING) {
		if (!err.code)
			err_set(&err, -ECANCELED, "the workload '%s' was deleted", w->id);
		callers_fail(w->a, &w->creating, &err);
		delete_on(w);
	} else if (err.code) {
		fail_create(w, &err);
	} else {
		w->phase = CREATED;
		callers_reply(w->a, &w->creating, &r.base);
	}
}

static int run_create(struct workload *w, struct edera_error *err)
{
	char bundle[PATH_CAP], pid[PATH_CAP], socket_arg[PATH_CAP], socket[PATH_CAP];
	const Protect__Control__V1__ProcessSpec *s = w->q->process;
	int fds[3] = { -1, -1, -1 }, r;
	const char *args[8];
	size_t n = 0;

	if (path_format(bundle, err, "--bundle=%s", w->dir) || path_format(pid, err, "--pid-file=%s/pid", w->dir) ||
	    path_format(socket, err, "%s/tty", w->dir) || path_format(socket_arg, err, "--console-socket=%s", socket))
		return err->code;
	args[n++] = "create";
	args[n++] = bundle;
	args[n++] = pid;
	if (s && s->tty) {
		args[n++] = socket_arg;
		w->console = crun_console_listen(socket, err);
		r = w->console < 0 ? w->console : 0;
	} else {
		r = process_open_io(w->main, s && s->stdin, fds, err);
	}
	args[n++] = w->id;
	args[n] = NULL;
	if (!r)
		r = crun_start(w->a, args, fds, on_crun_create, w, err);
	w->in_crun = !r;
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return r;
}

static void on_disk(void *user, int code);

/* The serial of the next disk or the tag of the next share to wait for, or NULL. */
static const char *next_source(struct workload *w)
{
	if (w->disk == 0)
		return w->q->disk_serial;
	for (; w->disk <= w->q->n_mounts; w->disk++) {
		const Edera__Agent__V1__Mount *m = w->q->mounts[w->disk - 1];

		if (m->source_case == EDERA__AGENT__V1__MOUNT__SOURCE_DISK_SERIAL)
			return m->disk_serial;
		if (m->source_case == EDERA__AGENT__V1__MOUNT__SOURCE_VIRTIOFS_TAG)
			return m->virtiofs_tag;
	}
	return NULL;
}

static struct disk_wait *wait_for(struct workload *w, const char *source)
{
	const Edera__Agent__V1__Mount *m = w->disk ? w->q->mounts[w->disk - 1] : NULL;
	char target[PATH_CAP];

	if (!m || m->source_case == EDERA__AGENT__V1__MOUNT__SOURCE_DISK_SERIAL)
		return disk_wait(w->a, source, on_disk, w);
	if (bundle_mount_path(w->dir, w->disk - 1, target, NULL))
		return NULL;
	return share_wait(w->a, source, target, m->read_only, on_disk, w);
}

static void create_on(struct workload *w)
{
	struct edera_error err = EDERA_ERROR_INIT;
	const char *source = next_source(w);

	if (source) {
		w->disks = wait_for(w, source);
		if (w->disks)
			return;
		err_set(&err, -ENOMEM, "out of memory");
	} else if (!bundle_make(w->a, w->dir, w->q, &w->process, &w->stop_signal, &err) && !run_create(w, &err)) {
		return;
	}
	err_wrap(&err, "cannot create the workload '%s'", w->id);
	fail_create(w, &err);
}

static void on_disk(void *user, int code)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct workload *w = user;

	w->disks = NULL;
	if (code) {
		err_set(&err, -ENODEV, "cannot create the workload '%s': no disk or share '%s' appeared within %d s", w->id, next_source(w),
			DISK_WAIT_MS / 1000);
		fail_create(w, &err);
		return;
	}
	w->disk++;
	create_on(w);
}

static Edera__Agent__V1__CreateWorkloadRequest *copy_request(const ProtobufCMessage *m)
{
	size_t n = protobuf_c_message_get_packed_size(m);
	_free_ uint8_t *bytes = malloc(n + 1);

	if (!bytes)
		return NULL;
	protobuf_c_message_pack(m, bytes);
	return edera__agent__v1__create_workload_request__unpack(NULL, n, bytes);
}

static struct workload *new_workload(struct agent *a, const ProtobufCMessage *m, struct edera_error *err)
{
	const Edera__Agent__V1__CreateWorkloadRequest *q = (const Edera__Agent__V1__CreateWorkloadRequest *)m;
	struct workload *w;

	if (!agent_valid_id(q->id)) {
		err_set(err, -EINVAL, "'%s' cannot name a workload: 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with . or -", q->id);
		return NULL;
	}
	if (a->n_workloads >= MAX_WORKLOADS) {
		err_set(err, -ENOSPC, "the zone keeps at most %d workloads", MAX_WORKLOADS);
		return NULL;
	}
	if (process_find(a, q->id)) {
		err_set(err, -EEXIST, "'%s' is already the name of a process", q->id);
		return NULL;
	}
	w = calloc(1, sizeof *w);
	if (!w || !(w->q = copy_request(m))) {
		free(w);
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	w->a = a;
	w->console = -1;
	w->phase = CREATING;
	w->stop_signal = SIGTERM;
	snprintf(w->id, sizeof w->id, "%s", q->id);
	if (path_format(w->dir, err, "%s/workloads/%s", a->state_dir, w->id) || path_format(w->cgroup, err, CGROUP_WORKLOADS "/%s", w->id) ||
	    path_mkdirs(w->dir, 0711, err) || !(w->main = process_new(a, w->id, w, err))) {
		protobuf_c_message_free_unpacked(&w->q->base, NULL);
		free(w);
		return NULL;
	}
	uv_timer_init(a->loop, &w->again);
	w->again.data = w;
	w->next = a->workloads;
	if (w->next)
		w->next->prev = w;
	a->workloads = w;
	a->n_workloads++;
	return w;
}

void workload_create(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__CreateWorkloadRequest *q = (const Edera__Agent__V1__CreateWorkloadRequest *)m;
	Edera__Agent__V1__CreateWorkloadReply r = EDERA__AGENT__V1__CREATE_WORKLOAD_REPLY__INIT;
	struct workload *w = workload_find(a, q->id);
	struct edera_error err = EDERA_ERROR_INIT;

	if (w && w->phase == CREATING) {
		callers_add(&w->creating, from);
	} else if (w && w->phase == DELETING) {
		fail_caller(a, from, -EBUSY, w->id, "is being deleted");
	} else if (w) {
		r.pid = process_pid(w->main);
		caller_reply(a, from, &r.base);
	} else if (a->stopping) {
		fail_caller(a, from, -ESHUTDOWN, q->id, "cannot be created: the zone is shutting down");
	} else if (!(w = new_workload(a, m, &err))) {
		caller_fail(a, from, &err);
	} else {
		callers_add(&w->creating, from);
		create_on(w);
	}
}

/* ---- starting ---- */

static void on_crun_start(void *user, const struct edera_error *err)
{
	Edera__Agent__V1__StartWorkloadReply r = EDERA__AGENT__V1__START_WORKLOAD_REPLY__INIT;
	struct workload *w = user;

	w->in_crun = false;
	if (err) {
		callers_fail(w->a, &w->starting, err);
	} else {
		if (w->phase == CREATED)
			w->phase = RUNNING;
		callers_reply(w->a, &w->starting, &r.base);
	}
	if (w->phase == DELETING)
		delete_on(w);
}

void workload_start(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__StartWorkloadRequest *q = (const Edera__Agent__V1__StartWorkloadRequest *)m;
	Edera__Agent__V1__StartWorkloadReply r = EDERA__AGENT__V1__START_WORKLOAD_REPLY__INIT;
	struct workload *w = workload_find(a, q->id);
	const char *args[] = { "start", q->id, NULL };
	struct edera_error err = EDERA_ERROR_INIT;
	int none[3] = { -1, -1, -1 };

	if (!w) {
		fail_caller(a, from, -ENOENT, q->id, "is not in this zone");
	} else if (w->phase == RUNNING || w->phase == STOPPED) {
		caller_reply(a, from, &r.base);
	} else if (w->phase != CREATED) {
		fail_caller(a, from, -EBUSY, w->id, w->phase == CREATING ? "is still being created" : "is being deleted");
	} else if (w->in_crun) {
		callers_add(&w->starting, from);
	} else if (crun_start(a, args, none, on_crun_start, w, &err)) {
		caller_fail(a, from, &err);
	} else {
		w->in_crun = true;
		callers_add(&w->starting, from);
	}
}

/* ---- telling about them ---- */

int container_write_exec(struct workload *w, const Protect__Control__V1__ProcessSpec *spec, const char *path, struct edera_error *err)
{
	char root[PATH_CAP];
	_close_ int fd = -1;
	json_object *process;
	struct user user;
	const char *text;
	bool other = spec->user || spec->group || spec->n_additional_gids;
	int r;

	if (other) {
		if (path_format(root, err, "%s/rootfs", w->dir))
			return err->code;
		fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (user_of_spec(fd, spec, "", &user, err))
			return err->code;
	}
	process = container_exec(w->process, spec, other ? &user : NULL, err);
	if (!process)
		return err->code;
	text = json_object_to_json_string_ext(process, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	r = text ? path_write_file(path, text, strlen(text), 0600, err) : err_set(err, -ENOMEM, "out of memory");
	json_object_put(process);
	return r;
}

void workload_list(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	Edera__Agent__V1__ListReply *r = malloc(sizeof *r);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!r) {
		err_set(&err, -ENOMEM, "out of memory");
		caller_fail(a, from, &err);
		return;
	}
	edera__agent__v1__list_reply__init(r);
	r->workloads = calloc(a->n_workloads + 1, sizeof *r->workloads);
	for (struct workload *w = a->workloads; w && r->workloads; w = w->next) {
		Edera__Agent__V1__WorkloadInfo *i = malloc(sizeof *i);

		if (!i)
			break;
		edera__agent__v1__workload_info__init(i);
		i->id = strdup(w->id);
		i->phase = (Edera__Agent__V1__WorkloadPhase)w->phase;
		if (process_ended(w->main) && (i->exit = malloc(sizeof *i->exit)))
			process_exit_info(w->main, i->exit);
		r->workloads[r->n_workloads++] = i;
	}
	process_list(a, r);
	caller_reply(a, from, &r->base);
	protobuf_c_message_free_unpacked(&r->base, NULL);
}

void workload_metrics(struct agent *a, Edera__Agent__V1__MetricsReply *r)
{
	r->workloads = calloc(a->n_workloads + 1, sizeof *r->workloads);
	for (struct workload *w = a->workloads; w && r->workloads && a->cgroups; w = w->next) {
		Edera__Agent__V1__WorkloadMetrics *i = malloc(sizeof *i);

		if (!i)
			break;
		edera__agent__v1__workload_metrics__init(i);
		i->id = w->id;
		i->memory = cgroup_number(w->cgroup, "memory.current", NULL);
		i->cpu_us = cgroup_number(w->cgroup, "cpu.stat", "usage_usec");
		i->processes = (uint32_t)cgroup_number(w->cgroup, "pids.current", NULL);
		r->workloads[r->n_workloads++] = i;
	}
}
