/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ttrpc_server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/buf.h"
#include "rpc/unix_socket.h"

#define CONNECTIONS_MAX 256u
#define LISTENERS_MAX 4u
#define READ_SIZE (64u << 10)
#define KEEP_OUTPUT (64u << 10)

struct ttrpc_socket {
	uv_poll_t poll;
	int fd;                     /* -1 once closed */
	int events;                 /* being waited for */
	unsigned refs;
	struct ttrpc_socket_ops ops;
	void *user;
	struct ttrpc_conn *conn;    /* NULL once closed */
	struct ttrpc_server *server; /* NULL: a client's */
	TAILQ_ENTRY(ttrpc_socket) link;
	struct buf out;
	size_t out_done;
	pid_t pid;
};

struct ttrpc_server {
	uv_loop_t *loop;
	struct ttrpc_socket_ops ops;
	void *user;
	struct unix_listener *listeners[LISTENERS_MAX];
	size_t n_listeners, n_sockets;
	TAILQ_HEAD(, ttrpc_socket) sockets;
};

/* ---- one connection ---- */

static void on_poll(uv_poll_t *poll, int status, int events);

static size_t pending(const struct ttrpc_socket *s) { return s->out.len - s->out_done; }

static void wait_for(struct ttrpc_socket *s)
{
	/* Only a server stops reading: of two ends that both did, neither would ever go on. */
	int events = (s->server && pending(s) > TTRPC_PAUSE_READING ? 0 : UV_READABLE) | (pending(s) ? UV_WRITABLE : 0);

	if (events != s->events && s->fd >= 0)
		uv_poll_start(&s->poll, events, on_poll);
	s->events = events;
}

/* Ends the connection from the loop: reading finds the end, writing an error. */
static void give_up(struct ttrpc_socket *s)
{
	buf_free(&s->out);
	s->out_done = 0;
	shutdown(s->fd, SHUT_RDWR);
	wait_for(s);
}

static void flush(struct ttrpc_socket *s)
{
	while (pending(s)) {
		ssize_t n = send(s->fd, s->out.data + s->out_done, pending(s), MSG_NOSIGNAL);

		if (n >= 0) {
			s->out_done += (size_t)n;
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR) {
			give_up(s);
			return;
		}
	}
	if (!pending(s)) {
		s->out_done = 0;
		buf_clear(&s->out);
		if (s->out.cap > KEEP_OUTPUT)
			buf_free(&s->out);
	} else if (s->out_done > s->out.len / 2) {
		buf_consume(&s->out, s->out_done);
		s->out_done = 0;
	}
	wait_for(s);
}

static void on_output(void *user, const uint8_t *data, size_t len)
{
	struct ttrpc_socket *s = user;

	if (s->fd < 0)
		return;
	buf_append(&s->out, data, len);
	if (s->out.failed || pending(s) > TTRPC_QUEUE_MAX)
		give_up(s);
	else
		flush(s);
}

static void on_request(void *user, struct ttrpc_conn *conn, const struct ttrpc_request *request)
{
	struct ttrpc_socket *s = user;

	s->ops.request(s->user, s, request);
}

static void on_data(void *user, struct ttrpc_conn *conn, uint32_t stream, const uint8_t *data, size_t len, bool closed)
{
	struct ttrpc_socket *s = user;

	if (s->ops.data)
		s->ops.data(s->user, s, stream, data, len, closed);
}

static void receive(struct ttrpc_socket *s)
{
	uint8_t data[READ_SIZE];
	ssize_t n = recv(s->fd, data, sizeof data, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || ttrpc_conn_feed(s->conn, data, (size_t)n, NULL))
		ttrpc_socket_close(s);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct ttrpc_socket *s = ttrpc_socket_ref(poll->data);

	if (status)
		ttrpc_socket_close(s);
	if (s->fd >= 0 && events & UV_WRITABLE)
		flush(s);
	if (s->fd >= 0 && events & UV_READABLE)
		receive(s);
	ttrpc_socket_unref(s);
}

static void poll_closed(uv_handle_t *h) { ttrpc_socket_unref(h->data); }

void ttrpc_socket_close(struct ttrpc_socket *s)
{
	struct ttrpc_conn *conn = s->conn;

	if (s->fd < 0)
		return;
	uv_poll_stop(&s->poll);
	close(s->fd);
	s->fd = -1;
	buf_free(&s->out);
	s->out_done = 0;
	if (s->server) {
		TAILQ_REMOVE(&s->server->sockets, s, link);
		s->server->n_sockets--;
	}
	s->conn = NULL;
	ttrpc_conn_free(conn);
	if (s->ops.closed)
		s->ops.closed(s->user, s);
	uv_close((uv_handle_t *)&s->poll, poll_closed); /* gives back the loop's reference */
}

static struct ttrpc_socket *socket_new(uv_loop_t *loop, int fd, const struct ttrpc_socket_ops *ops, void *user)
{
	struct ttrpc_ops conn_ops = { .output = on_output, .request = ops->request ? on_request : NULL, .data = on_data };
	struct ttrpc_socket *s = calloc(1, sizeof *s);
	struct ttrpc_conn *conn = s ? ttrpc_conn_new(&conn_ops, s) : NULL;

	if (!conn || uv_poll_init(loop, &s->poll, fd)) {
		ttrpc_conn_free(conn);
		free(s);
		close(fd);
		return NULL;
	}
	s->poll.data = s;
	s->fd = fd;
	s->conn = conn;
	s->ops = *ops;
	s->user = user;
	s->refs = 1; /* the loop's */
	return s;
}

struct ttrpc_socket *ttrpc_socket_connect(uv_loop_t *loop, const char *path, const struct ttrpc_socket_ops *ops, void *user, struct edera_error *err)
{
	struct ttrpc_socket *s;
	int fd = unix_socket_connect(path);

	if (fd < 0) {
		err_errno(err, fd, "cannot connect to %s", path);
		return NULL;
	}
	s = socket_new(loop, fd, ops, user);
	if (!s) {
		err_set(err, -ENOMEM, "cannot connect to %s: out of memory", path);
		return NULL;
	}
	wait_for(s);
	return ttrpc_socket_ref(s);
}

struct ttrpc_conn *ttrpc_socket_conn(struct ttrpc_socket *s) { return s->conn; }

struct ttrpc_socket *ttrpc_socket_ref(struct ttrpc_socket *s)
{
	s->refs++;
	return s;
}

void ttrpc_socket_unref(struct ttrpc_socket *s)
{
	if (s && --s->refs == 0)
		free(s);
}

bool ttrpc_socket_idle(const struct ttrpc_socket *s) { return pending(s) == 0; }

pid_t ttrpc_socket_peer(const struct ttrpc_socket *s) { return s->pid; }

/* ---- server ---- */

struct ttrpc_server *ttrpc_server_new(uv_loop_t *loop, const struct ttrpc_socket_ops *ops, void *user, struct edera_error *err)
{
	struct ttrpc_server *server = calloc(1, sizeof *server);

	if (!server) {
		err_set(err, -ENOMEM, "cannot make a ttrpc server: out of memory");
		return NULL;
	}
	server->loop = loop;
	server->ops = *ops;
	server->user = user;
	TAILQ_INIT(&server->sockets);
	return server;
}

/* Ours or root's: whoever else reaches the socket is turned away. */
static bool peer_allowed(int fd, pid_t *ret_pid)
{
	struct ucred cred;
	socklen_t len = sizeof cred;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) || (cred.uid != geteuid() && cred.uid != 0))
		return false;
	*ret_pid = cred.pid;
	return true;
}

static void on_connection(void *user, int fd)
{
	struct ttrpc_server *server = user;
	struct ttrpc_socket *s;
	pid_t pid;

	if (server->n_sockets == CONNECTIONS_MAX || !peer_allowed(fd, &pid)) {
		close(fd);
		return;
	}
	s = socket_new(server->loop, fd, &server->ops, server->user);
	if (!s)
		return;
	s->server = server;
	s->pid = pid;
	TAILQ_INSERT_TAIL(&server->sockets, s, link);
	server->n_sockets++;
	wait_for(s);
}

static int has_room(const struct ttrpc_server *server, struct edera_error *err)
{
	return server->n_listeners < LISTENERS_MAX ? 0 : err_set(err, -ENOSPC, "a ttrpc server listens on at most %u sockets", LISTENERS_MAX);
}

int ttrpc_server_listen_fd(struct ttrpc_server *server, int fd, struct edera_error *err)
{
	struct edera_error local = EDERA_ERROR_INIT;
	struct unix_listener *l;

	err = err ? err : &local;
	if (has_room(server, err)) {
		close(fd);
		return err->code;
	}
	l = unix_listener_new_fd(server->loop, fd, on_connection, server, err);
	if (!l)
		return err->code;
	server->listeners[server->n_listeners++] = l;
	return 0;
}

int ttrpc_server_listen_unix(struct ttrpc_server *server, const char *path, mode_t mode, struct edera_error *err)
{
	struct edera_error local = EDERA_ERROR_INIT;
	struct unix_listener *l;

	err = err ? err : &local;
	if (has_room(server, err))
		return err->code;
	l = unix_listener_new(server->loop, path, mode, getegid(), on_connection, server, err);
	if (!l)
		return err->code;
	server->listeners[server->n_listeners++] = l;
	return 0;
}

size_t ttrpc_server_connections(const struct ttrpc_server *server) { return server->n_sockets; }

void ttrpc_server_free(struct ttrpc_server *server)
{
	if (!server)
		return;
	while (server->n_listeners)
		unix_listener_free(server->listeners[--server->n_listeners]);
	while (!TAILQ_EMPTY(&server->sockets))
		ttrpc_socket_close(TAILQ_FIRST(&server->sockets));
	free(server);
}
