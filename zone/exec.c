/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a process the host asks for: in the zone by ourselves, in a workload through crun. */
#include "process.h"

#include "base/cleanup.h"
#include "container.h"
#include "crun.h"
#include "users.h"
#include "workload.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MAX_ENV 4096

/* One that crun is just starting. */
struct starting {
	struct starting *next;
	struct agent *a;
	struct process *p;
	struct callers callers;
	bool tty, release;
	Protect__Control__V1__TerminalSize size;
	int console; /* listening socket, or -1 */
	char spec[PATH_CAP], pid[PATH_CAP], socket[PATH_CAP];
};

static struct starting *starting;

static struct starting *find_starting(const struct process *p)
{
	for (struct starting *s = starting; s; s = s->next)
		if (s->p == p)
			return s;
	return NULL;
}

bool exec_release(struct process *p)
{
	struct starting *s = find_starting(p);

	if (s)
		s->release = true;
	return s != NULL;
}

static void reply_pid(struct agent *a, struct callers *cs, const struct process *p)
{
	Edera__Agent__V1__ExecReply r = EDERA__AGENT__V1__EXEC_REPLY__INIT;

	r.pid = process_pid(p);
	callers_reply(a, cs, &r.base);
}

static void close_all(int fds[3])
{
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0 && (i == 0 || fds[i] != fds[0]))
			close(fds[i]);
}

/* ---- in the zone ---- */

static void free_strings(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

/* What the request says, before what holds unless it does: the first of a name counts. */
static char **zone_env(const Protect__Control__V1__ProcessSpec *s, const char *home)
{
	char **env = calloc(s->n_environment + 4, sizeof *env);
	bool path = false, has_home = false, term = false;
	size_t n = 0;

	for (size_t i = 0; env && i < s->n_environment; i++) {
		const Protect__Control__V1__EnvironmentVariableSpec *e = s->environment[i];

		if (!*e->key || strchr(e->key, '=') || asprintf(&env[n], "%s=%s", e->key, e->value) < 0) {
			env[n] = NULL;
			continue;
		}
		n++;
		path |= !strcmp(e->key, "PATH");
		has_home |= !strcmp(e->key, "HOME");
		term |= !strcmp(e->key, "TERM");
	}
	if (env && !path)
		env[n++] = strdup("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	if (env && !has_home && asprintf(&env[n++], "HOME=%s", home) < 0)
		env[n - 1] = NULL;
	if (env && !term && s->tty)
		env[n] = strdup("TERM=xterm");
	return env;
}

static int exec_in_zone(struct agent *a, struct process *p, const Protect__Control__V1__ProcessSpec *s, struct edera_error *err)
{
	static char shell[] = "/bin/sh";
	_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct child child = { .fds = { -1, -1, -1 }, .cgroup = a->cgroups ? CGROUP_EXEC : NULL };
	char **argv = calloc(s->n_command + 2, sizeof *argv), **env = NULL;
	struct user user;
	pid_t pid;
	int r;

	r = user_of_spec(root, s, "", &user, err);
	if (!r && argv)
		env = zone_env(s, user.home);
	if (!r && !env)
		r = err_set(err, -ENOMEM, "out of memory");
	if (!r) {
		for (size_t i = 0; i < s->n_command; i++)
			argv[i] = s->command[i];
		if (!s->n_command)
			argv[0] = shell;
		child.argv = (const char *const *)argv;
		child.envp = (const char *const *)env;
		child.cwd = *s->working_directory ? s->working_directory : NULL;
		child.tty = s->tty;
		child.drop = user.uid || user.gid || user.n_groups;
		child.uid = user.uid;
		child.gid = user.gid;
		child.groups = user.groups;
		child.n_groups = user.n_groups;
		r = s->tty ? process_open_tty(p, s->terminal_size, &child.fds[0], err) : process_open_io(p, s->stdin, child.fds, err);
		if (!r && s->tty)
			child.fds[1] = child.fds[2] = child.fds[0];
	}
	if (!r) {
		r = child_start(&child, &pid, err);
		close_all(child.fds);
	}
	if (!r)
		process_started(p, pid);
	free(argv);
	free_strings(env);
	return r;
}

/* ---- in a workload ---- */

static void end_starting(struct starting *s)
{
	struct starting **at = &starting;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	if (s->console >= 0)
		close(s->console);
	unlink(s->socket);
	unlink(s->spec);
	unlink(s->pid);
	free(s);
}

static void on_crun_exec(void *user, const struct edera_error *failed)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct starting *s = user;
	struct process *p = s->p;
	struct agent *a = s->a;
	pid_t pid = 0;
	int master;

	if (failed) {
		err = *failed;
	} else if (!(pid = crun_pid(s->pid))) {
		err_set(&err, -EIO, "crun exec did not say what it started");
	} else if (s->tty) {
		if (!crun_console_take(steal_fd(&s->console), s->socket, &master, &err))
			process_adopt_tty(p, master, &s->size, &err);
	}
	if (pid)
		process_started(p, pid);
	if (err.code || s->release) {
		callers_fail(a, &s->callers, err.code ? &err : (err_set(&err, -ENOENT, "it was released"), &err));
		process_kill(p, SIGKILL, true);
		process_free(p);
	} else {
		reply_pid(a, &s->callers, p);
	}
	end_starting(s);
}

static int exec_in_workload(struct agent *a, struct process *p, const Protect__Control__V1__ProcessSpec *spec, struct caller from, struct edera_error *err)
{
	static unsigned serial;
	struct workload *w = process_workload(p);
	struct starting *s = calloc(1, sizeof *s);
	int fds[3] = { -1, -1, -1 }, r = 0;
	const char *args[16];
	size_t n = 0;
	char spec_arg[PATH_CAP], pid_arg[PATH_CAP], socket_arg[PATH_CAP];

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->a = a;
	s->p = p;
	s->tty = spec->tty;
	s->console = -1;
	protect__control__v1__terminal_size__init(&s->size);
	if (spec->terminal_size)
		s->size = *spec->terminal_size;
	serial++;
	if (path_format(s->spec, err, "%s/exec-%u.json", a->state_dir, serial) || path_format(s->pid, err, "%s/exec-%u.pid", a->state_dir, serial) ||
	    path_format(s->socket, err, "%s/tty-%u", a->state_dir, serial) || path_format(spec_arg, err, "--process=%s", s->spec) ||
	    path_format(pid_arg, err, "--pid-file=%s", s->pid) || path_format(socket_arg, err, "--console-socket=%s", s->socket) ||
	    container_write_exec(w, spec, s->spec, err))
		r = err->code;
	args[n++] = "exec";
	args[n++] = "--detach";
	args[n++] = spec_arg;
	args[n++] = pid_arg;
	if (!r && spec->tty) {
		args[n++] = socket_arg;
		s->console = crun_console_listen(s->socket, err);
		r = s->console < 0 ? s->console : 0;
	} else if (!r) {
		r = process_open_io(p, spec->stdin, fds, err);
	}
	args[n++] = workload_id(w);
	args[n] = NULL;
	s->next = starting;
	starting = s;
	if (!r)
		r = crun_start(a, args, fds, on_crun_exec, s, err);
	close_all(fds);
	if (r)
		end_starting(s);
	else
		callers_add(&s->callers, from);
	return r;
}

void process_exec(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	static const Protect__Control__V1__ProcessSpec none = PROTECT__CONTROL__V1__PROCESS_SPEC__INIT;
	const Edera__Agent__V1__ExecRequest *q = (const Edera__Agent__V1__ExecRequest *)m;
	const Protect__Control__V1__ProcessSpec *spec = q->process ? q->process : &none;
	struct workload *w = *q->workload_id ? workload_find(a, q->workload_id) : NULL;
	struct process *p = process_find(a, q->id);
	struct edera_error err = EDERA_ERROR_INIT;
	struct callers one = { 0 };
	struct starting *s;
	int r;

	if (p && (s = find_starting(p))) {
		callers_add(&s->callers, from);
		return;
	}
	if (!p) {
		if (a->stopping)
			err_set(&err, -ESHUTDOWN, "the zone is shutting down");
		else if (spec->n_environment > MAX_ENV || spec->n_command > MAX_ENV)
			err_set(&err, -E2BIG, "more than %d arguments or environment variables", MAX_ENV);
		else if (*q->workload_id && !(w && workload_running(w)))
			err_set(&err, w ? -EBUSY : -ENOENT, "the workload '%s' %s", q->workload_id, w ? "does not run" : "is not in this zone");
		else
			p = process_new(a, q->id, w, &err);
		if (!p) {
			caller_fail(a, from, &err);
			return;
		}
		r = w ? exec_in_workload(a, p, spec, from, &err) : exec_in_zone(a, p, spec, &err);
		if (r) {
			process_free(p);
			caller_fail(a, from, &err);
			return;
		}
		if (w)
			return;
	}
	callers_add(&one, from);
	reply_pid(a, &one, p);
}
