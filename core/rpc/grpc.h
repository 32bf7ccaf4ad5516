/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC (HTTP/2 cleartext over unix sockets) on nghttp2, libuv and protobuf-c; server and client. Everything here runs on the thread of
 * one uv loop; nothing blocks. Messages given to callbacks are borrowed for the callback; messages given to send are packed
 * before it returns. Flow control: a sender that is not "writable" should stop until its writable callback; what is sent
 * anyway is queued up to GRPC_SEND_MAX and then fails with -EAGAIN. A receiver that does not want more calls pause: nothing
 * more is read from that stream and HTTP/2's window stops the peer. No callback is called from within a function of this header, except by
 * grpc_client_free and grpc_client_unary. */
#ifndef RPC_GRPC_H
#define RPC_GRPC_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>
#include "base/error.h"
#include "rpc/msg.h"
#include "rpc/status.h"

#define GRPC_SEND_HIGH (256u << 10) /* queued bytes above which a stream is not writable */
#define GRPC_SEND_MAX (8u << 20)

/* ---- server ---- */

struct grpc_server;
struct grpc_call; /* one call being served; valid until its `closed` callback has returned */

struct grpc_peer { pid_t pid; uid_t uid; gid_t gid; char comm[32]; }; /* SO_PEERCRED; comm from /proc, "" if gone */

/* How one method is served. `name` is the rpc's name in the service descriptor, from which path and message types come. */
struct grpc_method {
	const char *name;
	bool client_stream, server_stream; /* as in the .proto (protobuf-c's descriptors do not say) */
	/* Unary and server-streaming: called once with the request, when the client has half-closed. Client-streaming: for each message, in order. */
	void (*message)(struct grpc_call *, const ProtobufCMessage *);
	void (*half_closed)(struct grpc_call *); /* client-streaming: the client will send no more; may be NULL */
	void (*writable)(struct grpc_call *);    /* may be NULL */
	/* Last callback, exactly once, for every call that got a message or was opened (client-streaming): finished, cancelled, deadline past,
	 * connection gone, server shut down. Free what grpc_call_user holds. May be NULL. */
	void (*closed)(struct grpc_call *);
};

struct grpc_service {
	const ProtobufCServiceDescriptor *descriptor;
	const struct grpc_method *methods; /* those not listed answer UNIMPLEMENTED */
	size_t n_methods;
	void *user;                        /* grpc_call_service_user */
};

struct grpc_server *grpc_server_new(uv_loop_t *, struct edera_error *);
int grpc_server_add(struct grpc_server *, const struct grpc_service *, struct edera_error *); /* service is borrowed for ever */
/* Binds, chmods and chowns before listening; a stale socket file is replaced, one that answers is -EADDRINUSE. */
int grpc_server_listen_unix(struct grpc_server *, const char *path, mode_t mode, gid_t gid, struct edera_error *);
/* Stops accepting, sends GOAWAY, lets calls end for at most grace_ms, then cancels them; `done` is called once nothing is left. */
void grpc_server_shutdown(struct grpc_server *, uint64_t grace_ms, void (*done)(void *), void *user);
void grpc_server_free(struct grpc_server *); /* after done, or before any listen; unlinks its sockets */

/* Strings that are not UTF-8 are corrected in the message. 0, -EAGAIN (queue full), -EMSGSIZE (never fits), -ENOMEM, -EPIPE (closed). */
int grpc_call_send(struct grpc_call *, const ProtobufCMessage *);
bool grpc_call_writable(const struct grpc_call *);
/* Ends the call after what was sent; message (may be NULL) becomes grpc-message. Nothing may be sent after. `closed` follows later, never from within. */
void grpc_call_finish(struct grpc_call *, enum rpc_status, const char *message);
void grpc_call_finish_error(struct grpc_call *, const struct edera_error *); /* code through rpc_status_of_errno */
/* Unary: send and finish OK. */
void grpc_call_reply(struct grpc_call *, const ProtobufCMessage *);
void grpc_call_pause(struct grpc_call *);
void grpc_call_resume(struct grpc_call *); /* what was buffered follows from the loop */
bool grpc_call_cancelled(const struct grpc_call *);
int64_t grpc_call_deadline_ns(const struct grpc_call *); /* CLOCK_MONOTONIC; 0 = none */
void grpc_call_set_user(struct grpc_call *, void *);
void *grpc_call_user(const struct grpc_call *);
void *grpc_call_service_user(const struct grpc_call *);
const struct grpc_peer *grpc_call_peer(const struct grpc_call *);
const char *grpc_call_user_agent(const struct grpc_call *); /* "" if none */
uv_loop_t *grpc_call_loop(const struct grpc_call *);

/* ---- client ---- */

struct grpc_client;
struct grpc_stream; /* one call being made; valid until `done` has returned */

/* address: "unix:///path", "unix:/path" or "/path". Connects when first used; a connection lost fails its calls with UNAVAILABLE. */
struct grpc_client *grpc_client_new(uv_loop_t *, const char *address, const char *user_agent, struct edera_error *);
void grpc_client_free(struct grpc_client *); /* calls in flight end with CANCELLED, callbacks included, before it returns; close handles need one more loop turn */

/* One header (lower-case name) that every call from here on carries; a new value takes the place of the old one. Both are borrowed while they are set;
 * value NULL: none. */
void grpc_client_set_header(struct grpc_client *, const char *name, const char *value);

uv_loop_t *grpc_client_loop(const struct grpc_client *);

struct grpc_stream_ops {
	void (*message)(struct grpc_stream *, const ProtobufCMessage *, void *user);
	void (*writable)(struct grpc_stream *, void *user); /* may be NULL */
	/* Exactly once, last. message is "" on OK; never NULL. */
	void (*done)(struct grpc_stream *, enum rpc_status, const char *message, void *user);
};

/* method: rpc name in the service. timeout_ms 0 = none. Errors come through done; NULL only without memory, or while the client is being freed. */
struct grpc_stream *grpc_client_open(struct grpc_client *, const ProtobufCServiceDescriptor *, const char *method, uint64_t timeout_ms, const struct grpc_stream_ops *, void *user);
int grpc_stream_send(struct grpc_stream *, const ProtobufCMessage *); /* as grpc_call_send */
void grpc_stream_half_close(struct grpc_stream *);
void grpc_stream_cancel(struct grpc_stream *); /* done(CANCELLED) follows */
bool grpc_stream_writable(const struct grpc_stream *);
void grpc_stream_pause(struct grpc_stream *);
void grpc_stream_resume(struct grpc_stream *);
void grpc_stream_keep(struct grpc_stream *); /* from within `message`: it is the caller's now, freed with protobuf_c_message_free_unpacked */

/* Blocking unary call for command lines: runs the loop until the answer. *ret is freed with protobuf_c_message_free_unpacked.
 * On failure err holds the server's sentence and *ret_status (may be NULL) its code. */
int grpc_client_unary(struct grpc_client *, const ProtobufCServiceDescriptor *, const char *method, const ProtobufCMessage *request, uint64_t timeout_ms,
		      ProtobufCMessage **ret, enum rpc_status *ret_status, struct edera_error *);

#endif
