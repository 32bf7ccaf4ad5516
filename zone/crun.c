/* SPDX-License-Identifier: Apache-2.0 */
#include "crun.h"

#include "base/cleanup.h"
#include "base/text.h"
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGS 32

struct job {
	struct agent *a;
	crun_done done;
	void *user;
	char verb[16], log[PATH_CAP];
};

/* The last line crun logged, without its time and level. */
static void last_words(const char *path, char *dst, size_t cap)
{
	_buf_ struct buf b = BUF_INIT;
	char *line, *quote;

	*dst = 0;
	if (path_read_file(path, 64 << 10, &b, NULL) || !b.len)
		return;
	while (b.len && b.data[b.len - 1] == '\n')
		b.data[--b.len] = 0;
	line = strrchr((char *)b.data, '\n');
	line = line ? line + 1 : (char *)b.data;
	quote = strstr(line, " error: ");
	snprintf(dst, cap, "%s", quote ? quote + 8 : line);
	text_force_utf8(dst);
}

static void on_end(void *user, int status)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct job *j = user;
	char said[400];

	last_words(j->log, said, sizeof said);
	unlink(j->log);
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		j->done(j->user, NULL);
	} else {
		int code = strstr(said, "No such file") || strstr(said, "not found") ? -ENOENT : strstr(said, "ermission denied") ? -EACCES : -EIO;

		if (WIFSIGNALED(status))
			err_set(&err, -EIO, "crun %s was ended by signal %d%s%s", j->verb, WTERMSIG(status), *said ? ": " : "", said);
		else
			err_set(&err, code, "crun %s failed: %s", j->verb, *said ? said : "it gave no reason");
		j->done(j->user, &err);
	}
	reaper_unhold();
	free(j);
}

int crun_start(struct agent *a, const char *const *args, const int fds[3], crun_done done, void *user, struct edera_error *err)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "XDG_RUNTIME_DIR=/run", NULL };
	static unsigned serial;
	const char *argv[MAX_ARGS] = { "crun" };
	char root[PATH_CAP], log[PATH_CAP];
	struct child child = { .argv = argv, .envp = env, .fds = { fds[0], fds[1], fds[2] } };
	struct job *j = calloc(1, sizeof *j);
	size_t n = 1;
	pid_t pid;

	if (!j)
		return err_set(err, -ENOMEM, "out of memory");
	if (path_format(root, err, "--root=%s/crun", a->state_dir) || path_format(j->log, err, "%s/crun-%u.log", a->state_dir, serial++) ||
	    path_format(log, err, "--log=file:%s", j->log)) {
		free(j);
		return err->code;
	}
	argv[n++] = root;
	argv[n++] = log;
	argv[n++] = "--log-format=text";
	argv[n++] = a->cgroups ? "--cgroup-manager=cgroupfs" : "--cgroup-manager=disabled";
	for (size_t i = 0; args[i] && n < MAX_ARGS - 1; i++)
		argv[n++] = args[i];
	j->a = a;
	j->done = done;
	j->user = user;
	snprintf(j->verb, sizeof j->verb, "%s", args[0]);
	if (child_start(&child, &pid, err)) {
		free(j);
		return err->code;
	}
	reaper_hold();
	reaper_watch(pid, on_end, j);
	return 0;
}

pid_t crun_pid(const char *pid_file)
{
	_buf_ struct buf b = BUF_INIT;

	return path_read_file(pid_file, 64, &b, NULL) || !b.data ? 0 : atoi((char *)b.data);
}

int crun_console_listen(const char *path, struct edera_error *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof sa.sun_path)
		return err_set(err, -ENAMETOOLONG, "cannot make a terminal: the path '%s' is too long for a socket", path);
	strcpy(sa.sun_path, path);
	unlink(path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, 1) < 0) {
		int e = -errno;

		if (fd >= 0)
			close(fd);
		return err_errno(err, e, "cannot make a terminal's socket '%s'", path);
	}
	return fd;
}

int crun_console_take(int listener, const char *path, int *ret_master, struct edera_error *err)
{
	union { struct cmsghdr h; char space[CMSG_SPACE(sizeof(int))]; } control;
	char byte[256];
	struct iovec iov = { byte, sizeof byte };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	const struct cmsghdr *c;

	close(listener);
	unlink(path);
	if (fd < 0 || recvmsg(fd, &m, MSG_CMSG_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot take over the terminal");
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)))
		return err_set(err, -EPROTO, "cannot take over the terminal: crun sent none");
	memcpy(ret_master, CMSG_DATA(c), sizeof(int));
	return 0;
}
