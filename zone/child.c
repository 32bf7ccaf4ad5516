/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "base/cleanup.h"
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (write(fd, text, strlen(text)) < 0) { /* a kernel without it is no reason not to run */
		}
		close(fd);
	}
}

/* What a child that cannot be started tells its parent. */
struct failure { int error, in_directory; };

/* Runs between fork and exec, in a process of one thread. */
static int prepare(const struct child *c, struct failure *why)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	char procs[PATH_CAP];
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	/* The agent's protection is its own: a container would inherit it from crun. */
	put("/proc/self/oom_score_adj", "0");
	setpriority(PRIO_PROCESS, 0, 0);
	if (c->cgroup && !path_format(procs, NULL, "%s/cgroup.procs", c->cgroup))
		put(procs, "0");
	for (int i = 0; i < 3; i++) /* all three are above 2, see child_start */
		if (dup2(c->fds[i], i) < 0)
			return -1;
	syscall(SYS_close_range, 3u, ~0u, 1u << 2); /* CLOSE_RANGE_CLOEXEC */
	if (c->tty && ioctl(0, TIOCSCTTY, 0) < 0)
		return -1;
	if (c->drop && (setgroups(c->n_groups, c->groups) < 0 || setresgid(c->gid, c->gid, c->gid) < 0 || setresuid(c->uid, c->uid, c->uid) < 0))
		return -1;
	why->in_directory = chdir(c->cwd ? c->cwd : "/") < 0;
	return why->in_directory ? -1 : 0;
}

int child_start(const struct child *c, pid_t *ret, struct edera_error *err)
{
	struct failure why = { 0 };
	struct child high = *c;
	int p[2], e = 0;
	ssize_t got;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot start '%s'", c->argv[0]);
	for (int i = 0; i < 3; i++) {
		high.fds[i] = c->fds[i] >= 0 ? fcntl(c->fds[i], F_DUPFD_CLOEXEC, 10) : open("/dev/null", O_RDWR | O_CLOEXEC);
		if (c->fds[i] < 0 && high.fds[i] >= 0 && high.fds[i] < 3) {
			int low = high.fds[i];

			high.fds[i] = fcntl(low, F_DUPFD_CLOEXEC, 10);
			close(low);
		}
		if (high.fds[i] < 0)
			e = errno;
	}
	pid = e ? -1 : fork();
	if (pid == 0) {
		if (!prepare(&high, &why)) {
			environ = (char **)c->envp;
			execvp(c->argv[0], (char *const *)c->argv);
		}
		why.error = errno;
		if (write(p[1], &why, sizeof why) < 0)
			_exit(126);
		_exit(127);
	}
	if (pid < 0 && !e)
		e = errno;
	close(p[1]);
	for (int i = 0; i < 3; i++)
		if (high.fds[i] >= 0)
			close(high.fds[i]);
	if (pid > 0) {
		do
			got = read(p[0], &why, sizeof why);
		while (got < 0 && errno == EINTR);
		if (got == (ssize_t)sizeof why) {
			waitpid(pid, NULL, 0);
			e = why.error;
		}
	}
	close(p[0]);
	if (e && why.in_directory)
		return err_errno(err, -e, "cannot start '%s' in the directory '%s'", c->argv[0], c->cwd ? c->cwd : "/");
	if (e)
		return err_errno(err, -e, "cannot start '%s'", c->argv[0]);
	*ret = pid;
	return 0;
}
