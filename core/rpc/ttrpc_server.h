/* SPDX-License-Identifier: Apache-2.0 */
/* ttrpc on unix sockets: serving and calling. Everything runs on the loop's thread; the application is called from the loop only. */
#ifndef RPC_TTRPC_SERVER_H
#define RPC_TTRPC_SERVER_H

#include <sys/types.h>
#include <uv.h>
#include "rpc/ttrpc.h"

#define TTRPC_PAUSE_READING (1u << 20) /* queued output above which a server reads no more requests of that peer */
#define TTRPC_QUEUE_MAX (64u << 20)    /* queued output at which a connection is given up */

struct ttrpc_server;
struct ttrpc_socket; /* one connection; counted references */

struct ttrpc_socket_ops {
	void (*request)(void *user, struct ttrpc_socket *, const struct ttrpc_request *); /* NULL: a pure client */
	void (*data)(void *user, struct ttrpc_socket *, uint32_t stream, const uint8_t *data, size_t len, bool closed); /* may be NULL */
	void (*closed)(void *user, struct ttrpc_socket *); /* last callback of a connection; may be NULL */
};

struct ttrpc_server *ttrpc_server_new(uv_loop_t *, const struct ttrpc_socket_ops *, void *user, struct edera_error *);
/* fd is listening already; taken over, also on failure. */
int ttrpc_server_listen_fd(struct ttrpc_server *, int fd, struct edera_error *);
int ttrpc_server_listen_unix(struct ttrpc_server *, const char *path, mode_t mode, struct edera_error *); /* as grpc_server_listen_unix */
size_t ttrpc_server_connections(const struct ttrpc_server *);
/* Stops accepting and closes every connection, `closed` callbacks included, before it returns; handles need one more loop turn. Output still
 * queued is lost. */
void ttrpc_server_free(struct ttrpc_server *);

/* Connects, for calls through ttrpc_socket_conn. The caller has a reference; it ends with ttrpc_socket_close, then ttrpc_socket_unref. */
struct ttrpc_socket *ttrpc_socket_connect(uv_loop_t *, const char *path, const struct ttrpc_socket_ops *, void *user, struct edera_error *);

/* The connection's calls and answers; NULL once it is closed, so that a late answer has nowhere to go. */
struct ttrpc_conn *ttrpc_socket_conn(struct ttrpc_socket *);
struct ttrpc_socket *ttrpc_socket_ref(struct ttrpc_socket *);
void ttrpc_socket_unref(struct ttrpc_socket *);
void ttrpc_socket_close(struct ttrpc_socket *); /* pending calls end with UNAVAILABLE; callbacks are called from within */
bool ttrpc_socket_idle(const struct ttrpc_socket *); /* nothing is queued for the peer */
pid_t ttrpc_socket_peer(const struct ttrpc_socket *);

#endif
