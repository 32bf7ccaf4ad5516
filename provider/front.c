/* SPDX-License-Identifier: Apache-2.0 */
/* The part that runs with the caller's rights, when the program is used by hand. It looks at nothing that came from outside. */
#include "worker.h"
#include "front_auth.h"
#include "interrupt.h"
#include "io.h"
#include "base/cleanup.h"
#include "base/content.h"
#include "base/path.h"
#include "base/spawn.h"

#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Where the image grows, and how it gets its name. */
struct output {
	char path[PATH_CAP], dir[PATH_CAP], temporary[PATH_CAP]; /* temporary: "" while the file has no name */
	int fd, dir_fd;
};

static void output_discard(struct output *o)
{
	if (o->temporary[0])
		path_remove_tree(o->temporary, NULL);
	if (o->fd >= 0)
		close(o->fd);
	if (o->dir_fd >= 0)
		close(o->dir_fd);
}

static int open_directory(struct output *o, struct edera_error *err)
{
	struct stat st;

	if (lstat(o->path, &st) == 0 && rmdir(o->path) < 0)
		return err_errno(err, -errno, "'%s' is in the way, and cannot be removed", o->path);
	int r = path_format(o->temporary, err, "%s.XXXXXX", o->path);

	if (r)
		return r;
	if (!mkdtemp(o->temporary)) {
		o->temporary[0] = 0;
		return err_errno(err, -errno, "cannot make a directory beside '%s'", o->path);
	}
	o->fd = open(o->temporary, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (o->fd < 0 || fchmod(o->fd, 0755) < 0)
		return err_errno(err, -errno, "cannot open '%s'", o->temporary);
	return 0;
}

static int output_open(struct output *o, const struct options *options, struct edera_error *err)
{
	char copy[PATH_CAP];
	mode_t mask;
	int r = path_format(o->path, err, "%s", options->output);

	if (!r)
		r = path_format(copy, err, "%s", options->output);
	if (!r)
		r = path_format(o->dir, err, "%s", dirname(copy));
	if (r)
		return r;
	o->dir_fd = open(o->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (o->dir_fd < 0)
		return err_errno(err, -errno, "cannot open the directory '%s'", o->dir);
	if (options->format == FORMAT_DIRECTORY)
		return open_directory(o, err);
	o->fd = open(o->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	if (o->fd >= 0)
		return 0;
	/* Not every file system has files without names. */
	r = path_format(o->temporary, err, "%s.XXXXXX", o->path);
	if (r)
		return r;
	o->fd = mkostemp(o->temporary, O_CLOEXEC);
	if (o->fd < 0) {
		o->temporary[0] = 0;
		return err_errno(err, -errno, "cannot create a file beside '%s'", o->path);
	}
	mask = umask(0);
	umask(mask);
	fchmod(o->fd, 0666 & ~mask);
	return 0;
}

static int output_publish(struct output *o, struct edera_error *err)
{
	char self[64];

	if (!o->temporary[0]) {
		snprintf(self, sizeof self, "/proc/self/fd/%d", o->fd);
		if (linkat(AT_FDCWD, self, AT_FDCWD, o->path, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		if (errno != EEXIST)
			return err_errno(err, -errno, "cannot give the image its name '%s'", o->path);
		for (unsigned i = 0; i < 100; i++) {
			char name[PATH_CAP];

			if (path_format(name, err, "%s.%d.%u", o->path, (int)getpid(), i))
				return err ? err->code : -ENAMETOOLONG;
			if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
				strcpy(o->temporary, name);
				break;
			}
		}
	}
	if (!o->temporary[0] || rename(o->temporary, o->path) < 0)
		return err_errno(err, -errno, "cannot give the image its name '%s'", o->path);
	o->temporary[0] = 0;
	fsync(o->dir_fd);
	return 0;
}

static int memory_file(const struct buf *b, struct edera_error *err)
{
	int fd = memfd_create("auth", MFD_CLOEXEC);

	if (fd < 0 || io_write_all(fd, b->data, b->len) || lseek(fd, 0, SEEK_SET) < 0) {
		int e = -errno;

		if (fd >= 0)
			close(fd);
		return err_errno(err, e, "cannot hand credentials over");
	}
	return fd;
}

static int find_blob(void *user, const char *digest, uint64_t size, int *ret_fd)
{
	const struct options *o = user;
	int r = -ENOENT;

	for (int i = 0; r && o->blobs[i]; i++)
		r = content_open(o->blobs[i], digest, ret_fd);
	return r;
}

static const struct content_ops blob_ops = { .open = find_blob };

/* Serves the worker until it ends. */
static void attend(struct content *c, int pidfd)
{
	struct pollfd p[2] = { { .fd = pidfd, .events = POLLIN }, { .fd = c->fd, .events = POLLIN } };

	while (!p[0].revents) {
		if (poll(p, 2, -1) < 0) {
			if (errno != EINTR)
				return;
			continue;
		}
		if (p[1].revents && !content_serve(c)) {
			shutdown(c->fd, SHUT_RDWR);
			p[1].fd = -1;
		}
	}
}

/* The same command again, with descriptors in place of what only we may open. */
static int run_worker(const struct options *o, int argc, char **argv, const struct output *out, int auth, struct edera_error *err)
{
	static const char *const given[] = { "--worker", "--auth-fd", "3", "--content-fd", "4", "--output-fd", "5", "--spool-fd", "6" };
	_free_ const char **args = calloc((size_t)argc + ARRAY_SIZE(given) + 1, sizeof *args);
	struct content content = { .ops = &blob_ops, .user = (void *)o };
	_close_ int ours = -1, theirs = -1;
	int pidfd, status, r, pair[2];
	char self[PATH_CAP];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	struct edera_spawn s = { .size = sizeof s, .argv = args, .envp = (const char *const *)environ };
	size_t used = 0;
	pid_t pid;

	if (!args || n < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, args ? -errno : -ENOMEM, "cannot start the worker");
	content.fd = ours = pair[0];
	theirs = pair[1];
	const int fds[] = { -1, STDOUT_FILENO, STDERR_FILENO, auth, theirs, out->fd, out->dir_fd };

	s.fds = fds;
	s.n_fds = o->verb == VERB_PULL ? 7 : 5;
	self[n] = 0;
	args[used++] = self;
	for (size_t i = 0; i < (o->verb == VERB_PULL ? ARRAY_SIZE(given) : 5); i++)
		args[used++] = given[i];
	for (int i = 1; i < argc; i++)
		args[used++] = argv[i];
	r = spawn(&s, &pidfd, &pid, err);
	close(steal_fd(&theirs));
	if (r)
		return r;
	interrupt_forward(pid);
	attend(&content, pidfd);
	r = spawn_wait(pidfd, pid, NULL, &status, err);
	interrupt_forward(0);
	if (r)
		return r;
	if (interrupt_caught())
		return 128 + interrupt_caught();
	if (status > 128)
		return err_set(err, -EIO, "the worker was ended by signal %d (%s)", status - 128, strsignal(status - 128));
	return status;
}

int front_main(const struct options *o, int argc, char **argv)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct output out = { .fd = -1, .dir_fd = -1 };
	_buf_ struct buf auth = BUF_INIT;
	_close_ int auth_fd = -1;
	int r = front_credentials(o, &auth, &err);

	if (!r) {
		auth_fd = memory_file(&auth, &err);
		r = auth_fd < 0 ? auth_fd : 0;
	}
	if (!r && o->verb == VERB_PULL)
		r = output_open(&out, o, &err);
	if (!r)
		r = run_worker(o, argc, argv, &out, auth_fd, &err);
	if (!r && o->verb == VERB_PULL)
		r = output_publish(&out, &err);
	output_discard(&out);
	return r < 0 ? report_error(o, &err) : r;
}
