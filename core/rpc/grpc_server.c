/* SPDX-License-Identifier: Apache-2.0 */
/* Listening, accepting, shutting down. */
#include "rpc/grpc_server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/cleanup.h"
#include "base/path.h"
#include "rpc/unix_socket.h"

#define CONNECTIONS_MAX 1024u
#define CONNECTIONS_OF_ONE_UID 256u /* so that nobody but our own user can use all of them up */
#define LISTENERS_MAX 8u
#define FLUSH_MS 1000u /* time cancelled calls get to reach their clients at shutdown */

struct grpc_server {
	uv_loop_t *loop;
	const struct grpc_service **services;
	size_t n_services;
	struct unix_listener *listeners[LISTENERS_MAX];
	struct h2_conns conns;
	size_t n_conns, n_listeners;
	uv_timer_t grace;
	bool stopping, cancelled, timer_closing;
	void (*done)(void *);
	void *done_user;
};

struct grpc_server *grpc_server_new(uv_loop_t *loop, struct edera_error *err)
{
	struct grpc_server *server = calloc(1, sizeof *server);

	if (!server) {
		err_set(err, -ENOMEM, "cannot make a gRPC server: out of memory");
		return NULL;
	}
	server->loop = loop;
	TAILQ_INIT(&server->conns);
	return server;
}

int grpc_server_add(struct grpc_server *server, const struct grpc_service *service, struct edera_error *err)
{
	const struct grpc_service **list;

	for (size_t i = 0; i < service->n_methods; i++)
		if (!protobuf_c_service_descriptor_get_method_by_name(service->descriptor, service->methods[i].name))
			return err_set(err, -EINVAL, "cannot serve %s: it has no method %s", service->descriptor->name, service->methods[i].name);
	list = reallocarray(server->services, server->n_services + 1, sizeof(*list));
	if (!list)
		return err_set(err, -ENOMEM, "cannot serve %s: out of memory", service->descriptor->name);
	list[server->n_services++] = service;
	server->services = list;
	return 0;
}

bool grpc_server_lookup(const struct grpc_server *server, const char *path, const struct grpc_service **ret_service, const struct grpc_method **ret_method,
			const ProtobufCMethodDescriptor **ret_descriptor)
{
	const char *method = strrchr(path, '/');

	if (*path != '/' || method == path)
		return false;
	for (size_t i = 0; i < server->n_services; i++) {
		const struct grpc_service *s = server->services[i];
		size_t n = strlen(s->descriptor->name);

		if ((size_t)(method - path) != n + 1 || memcmp(path + 1, s->descriptor->name, n))
			continue;
		for (size_t k = 0; k < s->n_methods; k++)
			if (strcmp(s->methods[k].name, method + 1) == 0) {
				*ret_service = s;
				*ret_method = &s->methods[k];
				*ret_descriptor = protobuf_c_service_descriptor_get_method_by_name(s->descriptor, method + 1);
				return true;
			}
	}
	return false;
}

/* ---- connections ---- */

static void get_peer(int fd, struct grpc_peer *ret)
{
	_buf_ struct buf comm = BUF_INIT;
	struct ucred cred;
	socklen_t len = sizeof cred;
	char path[PATH_CAP];

	*ret = (struct grpc_peer){ .pid = -1, .uid = (uid_t)-1, .gid = (gid_t)-1 };
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return;
	*ret = (struct grpc_peer){ .pid = cred.pid, .uid = cred.uid, .gid = cred.gid };
	if (path_format(path, NULL, "/proc/%d/comm", (int)cred.pid) || path_read_file(path, 64, &comm, NULL) || !comm.data)
		return;
	snprintf(ret->comm, sizeof ret->comm, "%.*s", (int)strcspn((char *)comm.data, "\n"), (char *)comm.data);
}

static void stopped(struct grpc_server *server);

void grpc_server_conn_gone(struct h2_conn *c)
{
	struct grpc_serving *serving = c->owner;
	struct grpc_server *server = serving->server;

	TAILQ_REMOVE(&server->conns, c, link);
	server->n_conns--;
	free(serving);
	stopped(server);
}

static bool has_room_for(const struct grpc_server *server, const struct grpc_peer *peer)
{
	const struct h2_conn *c;
	size_t n = 0;

	TAILQ_FOREACH(c, &server->conns, link)
		n += ((struct grpc_serving *)c->owner)->peer.uid == peer->uid;
	return server->n_conns < CONNECTIONS_MAX && (n < CONNECTIONS_OF_ONE_UID || peer->uid == geteuid());
}

static void on_connection(void *user, int fd)
{
	struct grpc_server *server = user;
	struct grpc_serving *serving = calloc(1, sizeof *serving);
	struct h2_conn *c = NULL;

	if (serving) {
		serving->server = server;
		get_peer(fd, &serving->peer);
		c = has_room_for(server, &serving->peer) ? h2_conn_new(server->loop, &grpc_call_role, serving) : NULL;
	}
	if (!c) {
		free(serving);
		close(fd);
		return;
	}
	TAILQ_INSERT_TAIL(&server->conns, c, link);
	server->n_conns++;
	h2_conn_start(c, fd);
}

int grpc_server_listen_unix(struct grpc_server *server, const char *path, mode_t mode, gid_t gid, struct edera_error *err)
{
	struct edera_error local = EDERA_ERROR_INIT;
	struct unix_listener *l;

	err = err ? err : &local;
	if (server->n_listeners == LISTENERS_MAX)
		return err_set(err, -ENOSPC, "cannot listen on %s: a server has at most %u sockets", path, LISTENERS_MAX);
	l = unix_listener_new(server->loop, path, mode, gid, on_connection, server, err);
	if (!l)
		return err->code;
	server->listeners[server->n_listeners++] = l;
	return 0;
}

/* ---- end ---- */

static void timer_closed(uv_handle_t *h)
{
	struct grpc_server *server = h->data;

	if (server->done)
		server->done(server->done_user); /* may free the server */
}

static void stopped(struct grpc_server *server)
{
	if (!server->stopping || server->timer_closing || server->n_conns)
		return;
	server->timer_closing = true;
	uv_close((uv_handle_t *)&server->grace, timer_closed);
}

static void grace_over(uv_timer_t *t)
{
	struct grpc_server *server = t->data;
	struct h2_conn *c;
	struct h2_stream *s, *next;

	TAILQ_FOREACH(c, &server->conns, link) {
		if (server->cancelled) {
			h2_conn_close(c);
			continue;
		}
		for (s = TAILQ_FIRST(&c->streams); s; s = next) {
			next = TAILQ_NEXT(s, link);
			grpc_call_abandon(s, RPC_UNAVAILABLE, "the server is shutting down");
		}
	}
	if (!server->cancelled)
		uv_timer_start(t, grace_over, FLUSH_MS, 0);
	server->cancelled = true;
}

static void close_listeners(struct grpc_server *server)
{
	while (server->n_listeners)
		unix_listener_free(server->listeners[--server->n_listeners]);
}

void grpc_server_shutdown(struct grpc_server *server, uint64_t grace_ms, void (*done)(void *), void *user)
{
	struct h2_conn *c;

	if (server->stopping)
		return;
	server->stopping = true;
	server->done = done;
	server->done_user = user;
	uv_timer_init(server->loop, &server->grace);
	server->grace.data = server;
	uv_update_time(server->loop);
	uv_timer_start(&server->grace, grace_over, grace_ms, 0);
	close_listeners(server);
	TAILQ_FOREACH(c, &server->conns, link)
		h2_conn_drain(c);
	stopped(server);
}

void grpc_server_free(struct grpc_server *server)
{
	if (!server)
		return;
	close_listeners(server);
	free(server->services);
	free(server);
}
