/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawn.h"
#include "base/cleanup.h"
#include "base/error.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_FDS 32

static const char *const minimal_env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", NULL };

/* Runs in the child; only system calls. Reports errno through `report` and does not return. */
static void child(const struct edera_spawn *s, const int *fds, size_t n, int report)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	int high[MAX_FDS], up;
	sigset_t none;
	int e;

	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	/* First out of the way of 0..n, then into place. */
	up = fcntl(report, F_DUPFD_CLOEXEC, (int)n);
	if (up < 0)
		goto fail;
	report = up;
	for (size_t i = 0; i < n; i++) {
		int from = fds[i] >= 0 ? fds[i] : open("/dev/null", O_RDWR);

		high[i] = fcntl(from, F_DUPFD_CLOEXEC, (int)n);
		if (high[i] < 0)
			goto fail;
	}
	for (size_t i = 0; i < n; i++)
		if (dup2(high[i], (int)i) < 0)
			goto fail;
	syscall(SYS_close_range, (unsigned)n, (unsigned)report - 1, 0);
	syscall(SYS_close_range, (unsigned)report + 1, ~0u, 0);
	if (s->drop_user) {
		if (setgroups(0, NULL) < 0 || setresgid(s->gid, s->gid, s->gid) < 0 || setresuid(s->uid, s->uid, s->uid) < 0)
			goto fail;
	}
	execve(s->argv[0], (char *const *)s->argv, (char *const *)(s->envp ? s->envp : minimal_env));
fail:
	e = errno;
	while (write(report, &e, sizeof e) < 0 && errno == EINTR)
		;
	_exit(127);
}

int spawn(const struct edera_spawn *s, int *ret_pidfd, pid_t *ret_pid, struct edera_error *err)
{
	size_t n = s->n_fds < 3 ? 3 : s->n_fds;
	int fds[MAX_FDS], p[2], e = 0, pidfd;
	sigset_t all, old;
	ssize_t got;
	pid_t pid;

	if (n > MAX_FDS)
		return err_set(err, -EINVAL, "cannot start '%s': more than %d descriptors", s->argv[0], MAX_FDS);
	for (size_t i = 0; i < n; i++)
		fds[i] = i < s->n_fds ? s->fds[i] : i == 2 ? 2 : -1;
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot start '%s'", s->argv[0]);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pid = fork();
	if (pid == 0)
		child(s, fds, n, p[1]);
	e = pid < 0 ? errno : 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(p[1]);
	if (pid < 0) {
		close(p[0]);
		return err_errno(err, -e, "cannot start '%s'", s->argv[0]);
	}
	do
		got = read(p[0], &e, sizeof e);
	while (got < 0 && errno == EINTR);
	close(p[0]);
	if (got == (ssize_t)sizeof e) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return err_errno(err, -e, "cannot start '%s'", s->argv[0]);
	}
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0) {
		e = errno;
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return err_errno(err, -e, "cannot watch '%s'", s->argv[0]);
	}
	*ret_pidfd = pidfd;
	if (ret_pid)
		*ret_pid = pid;
	return 0;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

int spawn_wait(int pidfd, pid_t pid, const struct edera_call *call, int *ret_status, struct edera_error *err)
{
	struct pollfd pf[2] = { { .fd = pidfd, .events = POLLIN }, { .fd = call ? call->cancel_fd : -1, .events = POLLIN } };
	siginfo_t si = { 0 };
	int why = 0;

	for (;;) {
		int ms = -1;

		if (call && call->deadline_ns) {
			int64_t left = (call->deadline_ns - now_ns()) / 1000000;

			ms = left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left + 1;
		}
		if (poll(pf, 2, ms) < 0 && errno != EINTR) {
			why = -errno;
			break;
		}
		if (pf[0].revents)
			break;
		if (pf[1].revents) {
			why = -ECANCELED;
			break;
		}
		if (call && call->deadline_ns && now_ns() >= call->deadline_ns) {
			why = -ETIMEDOUT;
			break;
		}
	}
	if (why) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
	}
	while (waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED) < 0 && errno == EINTR)
		;
	close(pidfd);
	if (why)
		return err_errno(err, why, "the child process %d was ended", (int)pid);
	*ret_status = si.si_code == CLD_EXITED ? si.si_status : 128 + si.si_status;
	return 0;
}

int spawn_user(const char *name, uint32_t *ret_uid, uint32_t *ret_gid, struct edera_error *err)
{
	struct passwd pw, *found = NULL;
	char space[4096];
	int r = getpwnam_r(name, &pw, space, sizeof space, &found);

	if (r)
		return err_errno(err, -r, "cannot look up the system user '%s'", name);
	if (!found)
		return err_set(err, -ENOENT, "the system user '%s' does not exist; `make install` makes it, or: useradd --system %s", name, name);
	*ret_uid = pw.pw_uid;
	*ret_gid = pw.pw_gid;
	return 0;
}
