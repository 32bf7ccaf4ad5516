/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/unix_socket.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "base/cleanup.h"

struct unix_listener {
	uv_poll_t poll;
	int fd;
	int spare;  /* given up to be able to accept, and so to refuse, when descriptors have run out */
	void (*accepted)(void *user, int fd);
	void *user;
	char path[sizeof ((struct sockaddr_un *)0)->sun_path]; /* "" if the name is not ours */
	dev_t dev;
	ino_t ino;
};

int unix_socket_address(const char *path, struct sockaddr_un *ret, struct edera_error *err)
{
	size_t len = strlen(path);

	if (len == 0 || len >= sizeof ret->sun_path)
		return err_set(err, -ENAMETOOLONG, "'%.200s' cannot be the path of a socket: it has %zu bytes, and 1 to %zu are possible", path, len,
			       sizeof ret->sun_path - 1);
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret->sun_path, path, len);
	return 0;
}

/* Makes way: nothing there, or a socket nobody listens on any more. */
static int remove_stale(const char *path, const struct sockaddr_un *address, struct edera_error *err)
{
	_close_ int fd = -1;
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : err_errno(err, -errno, "cannot look at %s", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, -EEXIST, "cannot listen on %s: it exists and is not a socket", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, -errno, "cannot make a socket");
	if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN)
		return err_set(err, -EADDRINUSE, "cannot listen on %s: another process listens there", path);
	if (errno != ECONNREFUSED)
		return err_errno(err, -errno, "cannot find out whether a process listens on %s", path);
	if (unlink(path) && errno != ENOENT)
		return err_errno(err, -errno, "cannot remove the stale socket %s", path);
	return 0;
}

int unix_socket_connect(const char *path)
{
	_close_ int fd = -1;
	struct sockaddr_un address;
	int r = unix_socket_address(path, &address, NULL);

	if (r)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address))
		return -errno;
	return steal_fd(&fd);
}

/* Listens only when mode and group are right: nobody can connect before. */
static int bind_path(const char *path, mode_t mode, gid_t gid, struct stat *ret, struct edera_error *err)
{
	_close_ int fd = -1;
	struct sockaddr_un address;
	int r = unix_socket_address(path, &address, err);

	if (!r)
		r = remove_stale(path, &address, err);
	if (r)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, -errno, "cannot make a socket");
	if (bind(fd, (const struct sockaddr *)&address, sizeof address))
		return err_errno(err, -errno, "cannot bind a socket to %s", path);
	if (lstat(path, ret) || chmod(path, mode) || (gid != ret->st_gid && lchown(path, (uid_t)-1, gid)) || listen(fd, SOMAXCONN)) {
		r = err_errno(err, -errno, "cannot set up the socket %s", path);
		unlink(path);
		return r;
	}
	return steal_fd(&fd);
}

/* ---- listener ---- */

static int open_spare(void) { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

static void refuse_one(struct unix_listener *l)
{
	int fd;

	if (l->spare >= 0)
		close(l->spare);
	fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		close(fd);
	l->spare = open_spare();
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct unix_listener *l = poll->data;
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		l->accepted(l->user, fd);
	else if (errno == EMFILE || errno == ENFILE)
		refuse_one(l);
}

struct unix_listener *unix_listener_new_fd(uv_loop_t *loop, int fd, void (*accepted)(void *user, int fd), void *user, struct edera_error *err)
{
	struct unix_listener *l = calloc(1, sizeof *l);
	int r = l ? uv_poll_init(loop, &l->poll, fd) : -ENOMEM; /* makes it non-blocking */

	if (r) {
		err_errno(err, r, "cannot wait for connections");
		close(fd);
		free(l);
		return NULL;
	}
	l->fd = fd;
	l->spare = open_spare();
	l->accepted = accepted;
	l->user = user;
	l->poll.data = l;
	r = uv_poll_start(&l->poll, UV_READABLE, on_readable);
	if (r) {
		err_errno(err, r, "cannot wait for connections");
		unix_listener_free(l);
		return NULL;
	}
	return l;
}

struct unix_listener *unix_listener_new(uv_loop_t *loop, const char *path, mode_t mode, gid_t gid, void (*accepted)(void *user, int fd), void *user,
					struct edera_error *err)
{
	struct unix_listener *l;
	struct stat st;
	int fd = bind_path(path, mode, gid, &st, err);

	if (fd < 0)
		return NULL;
	l = unix_listener_new_fd(loop, fd, accepted, user, err);
	if (!l) {
		unlink(path);
		return NULL;
	}
	memcpy(l->path, path, strlen(path) + 1); /* its length was checked */
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return l;
}

static void listener_closed(uv_handle_t *h) { free(h->data); }

void unix_listener_free(struct unix_listener *l)
{
	struct stat st;

	if (!l)
		return;
	if (l->path[0] && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->path);
	uv_close((uv_handle_t *)&l->poll, listener_closed);
	close(l->fd);
	if (l->spare >= 0)
		close(l->spare);
}
