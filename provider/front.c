/* SPDX-License-Identifier: Apache-2.0 */
/* The part that runs with the caller's rights, when the program is used by hand. It looks at nothing that came from outside. */
#include "worker.h"
#include "front_auth.h"
#include "interrupt.h"
#include "origin.h"
#include "io.h"
#include "base/cleanup.h"
#include "base/content.h"
#include "base/path.h"
#include "base/spawn.h"

#include <dirent.h>
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
	mode_t replaced; /* mode and type of what is there, or 0 */
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

/* Found out before anything is fetched. */
static int check_place(const char *path, mode_t *ret_mode, struct edera_error *err)
{
	size_t n = strlen(path);
	struct stat st;

	if (n == 0 || path[n - 1] == '/')
		return err_set(err, -EINVAL, "'%s' is no name of a file that --output could be", path);
	if (stat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_errno(err, -errno, "cannot put the image at '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EEXIST, "'%s' is there and is no regular file, so it is not replaced", path);
	*ret_mode = st.st_mode;
	return 0;
}

/* An empty directory is replaced by the rename, and stays as it is until then. */
static int check_directory(const char *path, mode_t *ret_mode, struct edera_error *err)
{
	struct dirent *entry;
	struct stat st;
	int r = 0;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_errno(err, -errno, "cannot put the image at '%s'", path);
	DIR *dir = S_ISDIR(st.st_mode) ? opendir(path) : NULL;

	if (!dir)
		return err_errno(err, S_ISDIR(st.st_mode) ? -errno : -ENOTDIR, "'%s' is in the way", path);
	while (!r && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			r = err_errno(err, -ENOTEMPTY, "'%s' is in the way", path);
	closedir(dir);
	*ret_mode = st.st_mode;
	return r;
}

static int open_directory(struct output *o, struct edera_error *err)
{
	int r = check_directory(o->path, &o->replaced, err);

	if (!r)
		r = path_format(o->temporary, err, "%s.XXXXXX", o->path);
	if (r)
		return r;
	if (!mkdtemp(o->temporary)) {
		o->temporary[0] = 0;
		return err_errno(err, -errno, "cannot make a directory beside '%s'", o->path);
	}
	o->fd = open(o->temporary, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (o->fd < 0 || fchmod(o->fd, o->replaced ? o->replaced & 0777 : 0755) < 0)
		return err_errno(err, -errno, "cannot open '%s'", o->temporary);
	return 0;
}

static bool is_stdout(const struct options *o) { return o->output && !strcmp(o->output, "-"); }

/* A pipe cannot be written in any order: the image grows in a file without a name first. */
static int open_for_stdout(struct output *o, struct edera_error *err)
{
	if (isatty(STDOUT_FILENO))
		return err_set(err, -EINVAL, "standard output is a terminal; an image is not for that (--output ./- names a file)");
	int r = path_format(o->dir, err, "%s", io_temporary_directory());

	if (r)
		return r;
	o->dir_fd = open(o->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (o->dir_fd >= 0)
		o->fd = open(o->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return o->fd < 0 ? err_errno(err, -errno, "cannot make a file in '%s' for the image", o->dir) : 0;
}

static int output_open(struct output *o, const struct options *options, struct edera_error *err)
{
	char copy[PATH_CAP];
	mode_t mask;

	if (is_stdout(options))
		return open_for_stdout(o, err);
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
	r = check_place(o->path, &o->replaced, err);
	if (r)
		return r;
	o->fd = open(o->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, o->replaced ? 0600 : 0666);
	if (o->fd >= 0)
		return o->replaced && fchmod(o->fd, o->replaced & 0777) < 0 ? err_errno(err, -errno, "cannot give the image the mode of '%s'", o->path) : 0;
	/* Not every file system has files without names. */
	r = path_format(o->temporary, err, "%s/.protect.XXXXXX", o->dir);
	if (r)
		return r;
	o->fd = mkostemp(o->temporary, O_CLOEXEC);
	if (o->fd < 0) {
		o->temporary[0] = 0;
		return err_errno(err, -errno, "cannot create a file beside '%s'", o->path);
	}
	mask = umask(0);
	umask(mask);
	fchmod(o->fd, o->replaced ? o->replaced & 0777 : 0666 & ~mask);
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

			if (path_format(name, err, "%s/.protect.%d.%u", o->dir, (int)getpid(), i))
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

/* In pieces, so that an interrupt is seen between them, also where the reader has stopped. */
static int output_copy(const struct output *o, struct edera_error *err)
{
	static char piece[64 << 10];
	off_t at = 0;

	for (;;) {
		struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
		ssize_t n = pread(o->fd, piece, sizeof piece, at), m;

		if (n < 0)
			return err_errno(err, -errno, "cannot read the image back from '%s'", o->dir);
		if (n == 0)
			return 0;
		m = poll(&p, 1, -1) < 0 ? -1 : write(STDOUT_FILENO, piece, (size_t)n);
		if (interrupt_caught())
			return 128 + interrupt_caught();
		if (m < 0 && errno != EINTR && errno != EAGAIN)
			return err_errno(err, -errno, "cannot write the image to the standard output");
		at += m < 0 ? 0 : m;
	}
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

/* For "-" in the reference: standard input, or a file with what comes from there, as it must be read anywhere. It has no name. */
static int archive_open(const struct options *o, const struct output *out, int *ret, struct edera_error *err)
{
	struct edera_error ignored = EDERA_ERROR_INIT;
	struct origin origin;
	struct stat st;

	if (o->verb == VERB_TAGS || origin_parse(o->reference, &origin, &ignored) || !origin_is_stream(&origin))
		return 0; /* what is wrong with it, the worker says */
	if (isatty(STDIN_FILENO))
		return err_set(err, -EINVAL, "standard input is a terminal; an archive is expected there");
	if (fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
		*ret = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return *ret < 0 ? err_errno(err, -errno, "cannot read standard input") : 0;
	}
	const char *tmp = o->verb == VERB_PULL ? out->dir : io_temporary_directory();
	_close_ int fd = open(tmp, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, -errno, "cannot make a file in '%s' for the archive from standard input", tmp);
	for (uint64_t sum = 0;;) {
		static char piece[256 << 10];
		struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
		ssize_t n = poll(&p, 1, -1) < 0 ? -1 : read(STDIN_FILENO, piece, sizeof piece);
		int r;

		if (interrupt_caught())
			return 128 + interrupt_caught();
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return err_errno(err, -errno, "cannot read standard input");
		if (n == 0)
			break;
		sum += (uint64_t)n;
		if (sum > o->max_size)
			return err_set(err, -EFBIG, "the archive on standard input is larger than the %llu bytes allowed (--max-size)", (unsigned long long)o->max_size);
		r = io_write_all(fd, piece, (size_t)n);
		if (r)
			return err_errno(err, r, "cannot keep the archive from standard input in '%s'", tmp);
	}
	*ret = steal_fd(&fd);
	return 0;
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
static int run_worker(const struct options *o, int argc, char **argv, const struct output *out, int auth, int archive, struct edera_error *err)
{
	static const char *const given[] = { "--worker", "--auth-fd", "3", "--content-fd", "4", "--archive-fd", "5", "--output-fd", "6", "--spool-fd", "7" };
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
	const int fds[] = { -1, STDOUT_FILENO, STDERR_FILENO, auth, theirs, archive, out->fd, out->dir_fd };

	s.fds = fds;
	s.n_fds = o->verb == VERB_PULL ? 8 : 6;
	self[n] = 0;
	args[used++] = self;
	for (size_t i = 0; i < (o->verb == VERB_PULL ? ARRAY_SIZE(given) : 7); i++)
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

static int check_blobs(const struct options *o, struct edera_error *err)
{
	for (int i = 0; o->blobs[i]; i++) {
		_close_ int fd = open(o->blobs[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return err_errno(err, -errno, "cannot look for blobs in '%s'", o->blobs[i]);
	}
	return 0;
}

int front_main(const struct options *o, int argc, char **argv)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct output out = { .fd = -1, .dir_fd = -1 };
	_buf_ struct buf auth = BUF_INIT;
	_close_ int auth_fd = -1, archive = -1;
	int r = check_blobs(o, &err);

	if (!r)
		r = front_credentials(o, &auth, &err);
	if (!r) {
		auth_fd = memory_file(&auth, &err);
		r = auth_fd < 0 ? auth_fd : 0;
	}
	if (!r && o->verb == VERB_PULL)
		r = output_open(&out, o, &err);
	if (!r)
		r = archive_open(o, &out, &archive, &err);
	if (!r)
		r = run_worker(o, argc, argv, &out, auth_fd, archive, &err);
	if (!r && o->verb == VERB_PULL)
		r = is_stdout(o) ? output_copy(&out, &err) : output_publish(&out, &err);
	if (r == STATUS_CACHED) {
		if (o->progress == PROGRESS_AUTO)
			fprintf(stderr, "the image is there already, as --have says; nothing is written to '%s'\n", o->output);
		r = 0;
	}
	output_discard(&out);
	return r < 0 ? report_error(o, &err) : r;
}
