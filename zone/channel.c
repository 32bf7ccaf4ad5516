/* SPDX-License-Identifier: Apache-2.0 */
/* The byte stream to the host. A virtio-serial port whose host end is closed reports POLLHUP for as long as it is, so the
 * descriptor is watched edge-triggered, through an epoll of its own that the loop watches: each change wakes us once. */
#include "agent.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "process.h"
#include "rpc/link.h"
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#define FIND_FIRST_MS 2
#define FIND_MAX_MS 500
#define NO_MEMORY_MS 20
#define READ_ROUNDS 16
#define WRITE_MAX (32u << 10) /* what a virtio-serial port takes at once */

struct channel {
	struct agent *a;
	const char *name;
	bool socket;
	int fd;                /* -1: none now */
	bool away;             /* the host's end is closed: what we would send is lost anyway */
	struct watch *events;  /* the epoll that holds fd */
	struct watch *listener;
	struct buf tx;
	size_t sent;           /* bytes of tx already written */
	uv_timer_t again;
	uint64_t wait_ms;
};

static void pump(struct channel *);
static void find(struct channel *);

static void on_again(uv_timer_t *t)
{
	struct channel *c = t->data;

	if (c->fd >= 0)
		pump(c);
	else
		find(c);
}

static void drop_output(struct channel *c)
{
	buf_clear(&c->tx);
	c->sent = 0;
}

static void close_stream(struct channel *c)
{
	watch_free(steal_ptr(c->events));
	if (c->fd >= 0)
		close(steal_fd(&c->fd));
	drop_output(c);
	if (!c->socket) {
		c->wait_ms = FIND_FIRST_MS;
		uv_timer_start(&c->again, on_again, c->wait_ms, 0);
	}
}

static void flush(struct channel *c)
{
	while (c->sent < c->tx.len) {
		size_t left = c->tx.len - c->sent;
		ssize_t n = write(c->fd, c->tx.data + c->sent, left < WRITE_MAX ? left : WRITE_MAX);

		if (n > 0) {
			c->sent += (size_t)n;
		} else if (n < 0 && errno == ENOMEM) {
			uv_timer_start(&c->again, on_again, NO_MEMORY_MS, 0);
			return;
		} else if (n == 0 || errno == EAGAIN) {
			return; /* the edge that says there is room again wakes us */
		} else if (errno != EINTR) {
			drop_output(c); /* the reading side finds out what is the matter */
			return;
		}
	}
	drop_output(c);
}

static void on_events(void *user, int events)
{
	struct channel *c = user;
	struct epoll_event e;

	while (epoll_wait(watch_fd(c->events), &e, 1, 0) > 0)
		;
	pump(c);
}

static void pump(struct channel *c)
{
	uint8_t bytes[64 << 10];
	int rounds = 0;

	while (c->fd >= 0) {
		ssize_t n = read(c->fd, bytes, sizeof bytes);

		if (n < 0 && errno == EINTR)
			continue;
		c->away = n == 0;
		if (n > 0) {
			service_feed(c->a, bytes, (size_t)n);
			if (++rounds == READ_ROUNDS) {
				uv_timer_start(&c->again, on_again, 0, 0);
				break;
			}
		} else if (n < 0 && errno == EAGAIN) {
			break;
		} else if (c->socket || (n < 0 && errno != EPIPE)) {
			close_stream(c);
			return;
		} else {
			drop_output(c);
			return;
		}
	}
	flush(c);
	if (c->a->starved && service_writable(c->a)) {
		c->a->starved = false;
		process_serve_all(c->a);
	}
}

static int watch_stream(struct channel *c, int fd)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	c->fd = fd;
	c->away = false;
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) < 0) {
		if (ep >= 0)
			close(ep);
		close_stream(c);
		return -1;
	}
	c->events = watch_new(c->a, ep, on_events, c);
	if (!c->events) {
		close_stream(c);
		return -1;
	}
	watch_events(c->events, UV_READABLE);
	return 0;
}

/* ---- a socket: the newest connection is the host ---- */

static void on_connection(void *user, int events)
{
	struct channel *c = user;
	int fd = accept4(watch_fd(c->listener), NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	close_stream(c);
	if (!watch_stream(c, fd))
		link_open(c->a->link);
}

static int listen_unix(struct channel *c, const char *path, struct edera_error *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof sa.sun_path)
		return err_set(err, -ENAMETOOLONG, "cannot listen on '%s': a socket's path has at most %zu bytes", path, sizeof sa.sun_path - 1);
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, 4) < 0) {
		int e = -errno;

		if (fd >= 0)
			close(fd);
		return err_errno(err, e, "cannot listen on '%s'", path);
	}
	c->listener = watch_new(c->a, fd, on_connection, c);
	if (!c->listener)
		return err_set(err, -ENOMEM, "cannot watch '%s'", path);
	watch_events(c->listener, UV_READABLE);
	return 0;
}

/* ---- a device: looked for until it is there ---- */

/* /dev/vportNpM of the virtio-serial port with this name. */
static int find_port(const char *name, char path[PATH_CAP])
{
	_closedir_ DIR *d = opendir("/sys/class/virtio-ports");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		_buf_ struct buf b = BUF_INIT;
		size_t n = strlen(name);

		if (e->d_name[0] == '.' || path_format(path, NULL, "/sys/class/virtio-ports/%s/name", e->d_name) || path_read_file(path, 256, &b, NULL))
			continue;
		if (b.len >= n && !memcmp(b.data, name, n) && (b.len == n || b.data[n] == '\n'))
			return path_format(path, NULL, "/dev/%s", e->d_name);
	}
	return -ENOENT;
}

static void find(struct channel *c)
{
	char path[PATH_CAP];
	struct termios t;
	int fd = -1;

	if (text_starts(c->name, "virtio:")) {
		if (!find_port(c->name + strlen("virtio:"), path))
			fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	} else if (!path_format(path, NULL, "/dev/%s", c->name)) {
		fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0 && !tcgetattr(fd, &t)) {
			cfmakeraw(&t);
			tcsetattr(fd, TCSANOW, &t);
		}
	}
	if (fd >= 0 && !watch_stream(c, fd)) {
		link_open(c->a->link);
		return;
	}
	c->wait_ms = c->wait_ms * 2 < FIND_MAX_MS ? c->wait_ms * 2 : FIND_MAX_MS;
	uv_timer_start(&c->again, on_again, c->wait_ms, 0);
}

struct channel *channel_new(struct agent *a, const char *name, struct edera_error *err)
{
	struct channel *c = calloc(1, sizeof *c);

	if (!c) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	c->a = a;
	c->name = name;
	c->fd = -1;
	c->wait_ms = FIND_FIRST_MS;
	uv_timer_init(a->loop, &c->again);
	c->again.data = c;
	c->socket = text_starts(name, "unix:");
	if (c->socket && listen_unix(c, name + strlen("unix:"), err)) {
		uv_close((uv_handle_t *)&c->again, NULL);
		return NULL;
	}
	a->channel = c;
	if (!c->socket)
		find(c);
	return c;
}

void channel_send(struct channel *c, const uint8_t *data, size_t len)
{
	if (c->fd < 0 || c->away)
		return;
	buf_append(&c->tx, data, len);
	if (c->tx.failed) {
		buf_free(&c->tx); /* the link notices the gap */
		c->sent = 0;
	}
	flush(c);
}

size_t channel_queued(const struct channel *c)
{
	return c->tx.len - c->sent;
}

void channel_flush_blocking(struct channel *c, unsigned ms)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };

	while (c->fd >= 0 && channel_queued(c) && poll(&p, 1, (int)ms) > 0 && !(p.revents & (POLLHUP | POLLERR)))
		flush(c);
}
