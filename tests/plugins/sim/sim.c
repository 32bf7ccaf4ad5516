/* SPDX-License-Identifier: Apache-2.0 */
/* A hypervisor plugin for tests: a "VM" is the real zone agent as a local process in namespaces of its own. Written as a third party
 * would, with nothing but the installed headers. The machine itself is the program sim-vmm beside the .so; what is known of one
 * is in its directory, so that a daemon that starts anew finds it:
 *   vmm.lock    held by sim-vmm while it lives (a POSIX lock, so that the kernel tells its pid); first byte: C, R, S or X
 *               (created, running, stopped, crashed)
 *   state/      the agent's; disks are links state/disks/SERIAL
 *   agent.sock, console.sock */
#include <edera/hypervisor.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATH_CAP 4096

struct sim {
	const struct edera_host *host;
	const char *run_dir, *agent, *vmm;
};

/* A running sim-vmm whose end is to be reported. */
struct watch {
	struct sim *s;
	int pidfd;
	uint64_t id;
	char vm[37];
};

static int fail(struct edera_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fail(struct edera_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	return code;
}

static int expired(const struct edera_call *c, struct edera_error *err)
{
	struct pollfd pf = { .fd = c ? c->cancel_fd : -1, .events = POLLIN };
	struct timespec now;

	if (!c)
		return 0;
	if (poll(&pf, 1, 0) > 0)
		return fail(err, -ECANCELED, "the operation was given up by its caller");
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (c->deadline_ns && now.tv_sec * 1000000000ll + now.tv_nsec >= c->deadline_ns)
		return fail(err, -ETIMEDOUT, "the operation ran out of time");
	return 0;
}

static int is_uuid(const char *s)
{
	return strlen(s) == 36 && strspn(s, "0123456789abcdefABCDEF-") == 36;
}

static const char *in_dir(const struct sim *s, const char *id, const char *name, char dst[PATH_CAP])
{
	snprintf(dst, PATH_CAP, "%s/zones/%s/%s", s->run_dir, id, name);
	return dst;
}

/* The state byte, 0 if there is no such VM; *ret_pid is sim-vmm's, 0 if it does not run. */
static char look(const struct sim *s, const char *id, pid_t *ret_pid)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_CAP], state = 0;
	int fd = is_uuid(id) ? open(in_dir(s, id, "vmm.lock", path), O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return 0;
	if (fcntl(fd, F_GETLK, &fl) < 0 || fl.l_type == F_UNLCK)
		fl.l_pid = 0;
	if (pread(fd, &state, 1, 0) != 1)
		state = 0;
	close(fd);
	if (!fl.l_pid && (state == 'C' || state == 'R'))
		state = 'X';
	*ret_pid = fl.l_pid;
	return state;
}

/* An open sim-vmm cannot be mistaken for a later process of the same number. */
static int open_vmm(const struct sim *s, const char *id, int *ret_pidfd)
{
	pid_t pid = 0, again = 0;
	int fd;

	if (!look(s, id, &pid) || !pid)
		return -ESRCH;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -errno;
	look(s, id, &again);
	if (again != pid) {
		close(fd);
		return -ESRCH;
	}
	*ret_pidfd = fd;
	return 0;
}

/* On the loop thread. */
static void on_end(void *user, uint32_t events)
{
	struct watch *w = user;
	siginfo_t si;
	pid_t pid;
	char state;

	(void)events;
	w->s->host->unwatch(w->s->host->core, w->id);
	waitid(P_PIDFD, (id_t)w->pidfd, &si, WEXITED | WNOHANG); /* fails if another process started it */
	close(w->pidfd);
	pid = 0;
	state = look(w->s, w->vm, &pid);
	/* Without a file vm_destroy was here first, and there may already be another VM of that id. */
	if (pid)
		;
	else if (state == 'X')
		w->s->host->vm_event(w->s->host->core, w->vm, EDERA_VM_EVENT_CRASHED, "the agent or its sim-vmm ended unexpectedly");
	else
		w->s->host->vm_event(w->s->host->core, w->vm, EDERA_VM_EVENT_STOPPED, "the agent ended");
	free(w);
}

static int watch_end(struct sim *s, const char *id, int pidfd)
{
	struct watch *w = calloc(1, sizeof *w);
	int r;

	if (!w)
		return -ENOMEM;
	w->s = s;
	w->pidfd = pidfd;
	snprintf(w->vm, sizeof w->vm, "%s", id);
	r = s->host->watch_fd(s->host->core, pidfd, POLLIN, on_end, w, &w->id);
	if (r)
		free(w);
	return r;
}

static int link_disk(const struct sim *s, const char *id, const struct edera_disk *d, struct edera_error *err)
{
	size_t n = strlen(d->serial);
	char name[64], path[PATH_CAP];

	if (n < 1 || n > 20 || strspn(d->serial, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
		return fail(err, -EINVAL, "the disk serial '%s' is not 1 to 20 of a-z, 0-9 and '-'", d->serial);
	if (access(d->path, R_OK) < 0)
		return fail(err, -errno, "cannot use '%s' as disk '%s': %m", d->path, d->serial);
	snprintf(name, sizeof name, "state/disks/%.40s", d->serial);
	if (symlink(d->path, in_dir(s, id, name, path)) < 0)
		return fail(err, -errno, "cannot attach '%s' as disk '%s': %m", d->path, d->serial);
	return 0;
}

static void remove_tree(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char sub[PATH_CAP + 256];

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
		if (e->d_type == DT_DIR)
			remove_tree(sub);
		unlink(sub);
	}
	if (d)
		closedir(d);
	rmdir(path);
}

static void remove_files(const struct sim *s, const char *id)
{
	static const char *const names[] = { "agent.sock", "inner.sock", "console.sock", "vmm.lock" };
	char path[PATH_CAP];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unlink(in_dir(s, id, names[i], path));
	remove_tree(in_dir(s, id, "state", path));
}

/* Starts sim-vmm and waits until it has its sockets; what it writes on descriptor 3 is the reason why it has not. */
static int run_vmm(struct sim *s, const struct edera_call *call, const struct edera_vm_spec *spec, int *ret_pidfd, struct edera_error *err)
{
	const char *argv[] = { s->vmm, spec->id, spec->run_dir, s->agent, spec->name, NULL };
	struct edera_spawn sp = { .size = sizeof sp, .argv = argv, .n_fds = 4 };
	char text[256] = "";
	int p[2], r;
	ssize_t n;

	if (pipe2(p, O_CLOEXEC) < 0)
		return fail(err, -errno, "cannot make a pipe: %m");
	sp.fds = (int[]){ -1, -1, -1, p[1] };
	r = s->host->spawn(s->host->core, &sp, ret_pidfd, err);
	close(p[1]);
	if (!r) {
		struct pollfd pf = { .fd = p[0], .events = POLLIN };

		while (poll(&pf, 1, 20) <= 0 && !(r = expired(call, err)))
			;
		n = r ? 0 : read(p[0], text, sizeof text - 1);
		if (!r && n != 0)
			r = fail(err, -EIO, "sim-vmm does not start: %s", text);
		if (r) {
			siginfo_t si;

			syscall(SYS_pidfd_send_signal, *ret_pidfd, SIGKILL, NULL, 0);
			waitid(P_PIDFD, (id_t)*ret_pidfd, &si, WEXITED);
			close(*ret_pidfd);
		}
	}
	close(p[0]);
	return r;
}

static int fill_info(const struct sim *s, const char *id, struct edera_vm_info *ret, struct edera_error *err)
{
	struct edera_vm_info info = { .size = sizeof info };
	pid_t pid = 0;
	char state = look(s, id, &pid);

	if (!state)
		return fail(err, -ENOENT, "there is no virtual machine %s", id);
	snprintf(info.id, sizeof info.id, "%s", id);
	info.domid = (uint32_t)pid;
	info.state = state == 'C' ? EDERA_VM_CREATED : state == 'R' ? EDERA_VM_RUNNING : EDERA_VM_STOPPED;
	*ret = info;
	return 0;
}

static int vm_create(void *inst, const struct edera_call *call, const struct edera_vm_spec *spec, struct edera_vm_info *ret, struct edera_error *err)
{
	struct sim *s = inst;
	char path[PATH_CAP];
	int pidfd = -1, r = expired(call, err);
	pid_t pid;

	if (r)
		return r;
	if (!is_uuid(spec->id))
		return fail(err, -EINVAL, "the id '%s' of a virtual machine is not a UUID", spec->id);
	if (look(s, spec->id, &pid))
		return fail(err, -EEXIST, "a virtual machine with the id %s exists", spec->id);
	mkdir(in_dir(s, spec->id, "state", path), 0700);
	mkdir(in_dir(s, spec->id, "state/disks", path), 0700);
	for (uint32_t i = 0; !r && i < spec->n_disks; i++)
		r = link_disk(s, spec->id, &spec->disks[i], err);
	if (!r)
		r = run_vmm(s, call, spec, &pidfd, err);
	if (!r)
		r = fill_info(s, spec->id, ret, err);
	if (!r && watch_end(s, spec->id, pidfd))
		r = fail(err, -ENOMEM, "cannot watch the virtual machine %s", spec->id);
	if (r) {
		siginfo_t si;

		if (pidfd >= 0) {
			syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
			waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED);
			close(pidfd);
		}
		remove_files(s, spec->id);
	}
	return r;
}

/* Sends the signal and waits until the state is no longer `from`, or the VMM is gone. */
static int signal_vmm(struct sim *s, const struct edera_call *call, const char *id, int sig, char from, struct edera_error *err)
{
	int pidfd, r = open_vmm(s, id, &pidfd);
	struct pollfd pf = { .events = POLLIN };
	pid_t pid;

	if (r)
		return 0; /* ended meanwhile */
	pf.fd = pidfd;
	syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
	while (from && !r && look(s, id, &pid) == from && poll(&pf, 1, 1) <= 0)
		r = expired(call, err);
	close(pidfd);
	return r;
}

static int vm_start(void *inst, const struct edera_call *call, const char *id, struct edera_error *err)
{
	struct sim *s = inst;
	int r = expired(call, err);
	pid_t pid;
	char state;

	if (r)
		return r;
	state = look(s, id, &pid);
	if (!state)
		return fail(err, -ENOENT, "there is no virtual machine %s", id);
	if (state == 'R')
		return 0;
	if (state != 'C')
		return fail(err, -EINVAL, "the virtual machine %s has ended", id);
	r = signal_vmm(s, call, id, SIGUSR1, 'C', err);
	if (!r)
		s->host->vm_event(s->host->core, id, EDERA_VM_EVENT_STARTED, "");
	return r;
}

/* SIGINT: sim-vmm kills its agent, says that it stopped, and ends. */
static int end_vm(struct sim *s, const struct edera_call *call, const char *id, struct edera_error *err)
{
	struct pollfd pf = { .events = POLLIN };
	int pidfd, r = open_vmm(s, id, &pidfd);

	if (r)
		return 0;
	pf.fd = pidfd;
	syscall(SYS_pidfd_send_signal, pidfd, SIGINT, NULL, 0);
	for (r = 0; !r && poll(&pf, 1, 20) <= 0;)
		r = expired(call, err);
	close(pidfd);
	return r;
}

static int vm_stop(void *inst, const struct edera_call *call, const char *id, uint32_t flags, struct edera_error *err)
{
	struct sim *s = inst;
	int r = expired(call, err);
	pid_t pid;

	if (r)
		return r;
	if (!look(s, id, &pid))
		return fail(err, -ENOENT, "there is no virtual machine %s", id);
	return flags & EDERA_VM_STOP_FORCE ? end_vm(s, call, id, err) : signal_vmm(s, call, id, SIGTERM, 0, err);
}

static int vm_destroy(void *inst, const struct edera_call *call, const char *id, struct edera_error *err)
{
	struct sim *s = inst;
	int r = expired(call, err);
	pid_t pid;

	if (r || !look(s, id, &pid))
		return r;
	r = end_vm(s, call, id, err);
	if (!r)
		remove_files(s, id);
	return r;
}

static int vm_info(void *inst, const struct edera_call *call, const char *id, struct edera_vm_info *ret, struct edera_error *err)
{
	int r = expired(call, err);

	return r ? r : fill_info(inst, id, ret, err);
}

static int vm_list(void *inst, const struct edera_call *call, int (*cb)(void *, const struct edera_vm_info *), void *user, struct edera_error *err)
{
	struct sim *s = inst;
	char path[PATH_CAP];
	struct dirent *e;
	int r = expired(call, err), stop = 0;
	DIR *d;

	if (r)
		return r;
	snprintf(path, sizeof path, "%s/zones", s->run_dir);
	d = opendir(path);
	while (d && !stop && (e = readdir(d))) {
		struct edera_vm_info info;

		if (!fill_info(s, e->d_name, &info, NULL))
			stop = cb(user, &info);
	}
	if (d)
		closedir(d);
	return 0;
}

static int stream(struct sim *s, const struct edera_call *call, const char *id, const char *name, int *ret_fd, struct edera_error *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd, r = expired(call, err);
	pid_t pid = 0;

	if (r)
		return r;
	if (!look(s, id, &pid))
		return fail(err, -ENOENT, "there is no virtual machine %s", id);
	if (snprintf(sa.sun_path, sizeof sa.sun_path, "%s/zones/%s/%s", s->run_dir, id, name) >= (int)sizeof sa.sun_path)
		return fail(err, -ENAMETOOLONG, "the run directory '%s' is too long for a socket", s->run_dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail(err, -errno, "cannot make a socket: %m");
	/* EAGAIN: others wait before us. */
	while (!r && connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0) {
		r = errno == EAGAIN ? expired(call, err) : fail(err, -errno, "cannot connect to '%s': %m", sa.sun_path);
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
	if (r)
		close(fd);
	else
		*ret_fd = fd;
	return r;
}

static int vm_channel(void *inst, const struct edera_call *call, const char *id, int *ret_fd, struct edera_error *err)
{
	return stream(inst, call, id, "agent.sock", ret_fd, err);
}

static int vm_console(void *inst, const struct edera_call *call, const char *id, int *ret_fd, struct edera_error *err)
{
	return stream(inst, call, id, "console.sock", ret_fd, err);
}

static int disk_attach(void *inst, const struct edera_call *call, const char *id, const struct edera_disk *d, struct edera_error *err)
{
	int r = expired(call, err);
	pid_t pid = 0;

	if (r)
		return r;
	if (!look(inst, id, &pid) || !pid)
		return fail(err, -ENOENT, "there is no virtual machine %s", id);
	return link_disk(inst, id, d, err);
}

static int disk_detach(void *inst, const struct edera_call *call, const char *id, const char *serial, struct edera_error *err)
{
	char name[64], path[PATH_CAP];
	int r = expired(call, err);
	pid_t pid = 0;

	if (r)
		return r;
	if (!look(inst, id, &pid) || !pid)
		return fail(err, -ENOENT, "there is no virtual machine %s", id);
	snprintf(name, sizeof name, "state/disks/%.40s", serial);
	if (!strchr(serial, '/') && unlink(in_dir(inst, id, name, path)) < 0 && errno != ENOENT)
		return fail(err, -errno, "cannot detach disk '%s': %m", serial);
	return 0;
}

static int probe(const struct edera_host *host, const struct edera_conf *conf, struct edera_error *err)
{
	const char *keys[] = { "agent", "vmm" };

	for (int i = 0; i < 2; i++)
		if (access(host->conf_str(conf, keys[i]), X_OK) < 0)
			return fail(err, -ENODEV, "plugin.sim.%s names '%s', which cannot be run: %m", keys[i], host->conf_str(conf, keys[i]));
	return 0;
}

static int init(const struct edera_host *host, const struct edera_conf *conf, void **ret, struct edera_error *err)
{
	struct sim *s = calloc(1, sizeof *s);

	if (!s)
		return fail(err, -ENOMEM, "cannot get memory for the sim plugin");
	s->host = host;
	s->run_dir = host->path(host->core, EDERA_PATH_RUN);
	s->agent = host->conf_str(conf, "agent");
	s->vmm = host->conf_str(conf, "vmm");
	*ret = s;
	return 0;
}

static int adopt(void *user, const struct edera_vm_info *info)
{
	int pidfd;

	if (!open_vmm(user, info->id, &pidfd) && watch_end(user, info->id, pidfd))
		close(pidfd);
	return 0;
}

static int start(void *inst, struct edera_error *err)
{
	return vm_list(inst, NULL, adopt, inst, err);
}

static const struct edera_hypervisor_ops ops = {
	.size = sizeof ops,
	.vm_create = vm_create, .vm_start = vm_start, .vm_stop = vm_stop, .vm_destroy = vm_destroy, .vm_info = vm_info, .vm_list = vm_list,
	.vm_channel = vm_channel, .vm_console = vm_console, .disk_attach = disk_attach, .disk_detach = disk_detach,
};

static const struct edera_provide provides[] = {
	{ EDERA_KIND_HYPERVISOR, 0, "sim", EDERA_HV_BLOCK_HOTPLUG | EDERA_HV_CONSOLE | EDERA_HV_ADOPT | EDERA_HV_PV_ONLY, &ops },
	{ 0 },
};

static const struct edera_conf_key keys[] = {
	{ "agent", EDERA_CONF_STRING, 0, NULL, "path of protect-zone-agent" },
	{ "vmm", EDERA_CONF_STRING, 0, NULL, "path of sim-vmm" },
	{ 0 },
};

EDERA_PLUGIN_DEFINE(.name = "sim", .version = "1.0", .summary = "zones as local processes, for tests", .license = "Apache-2.0",
	.provides = provides, .conf = keys, .probe = probe, .init = init, .start = start, .fini = free);
