/* SPDX-License-Identifier: Apache-2.0 */
/* ttrpc without I/O: bytes in, bytes out, calls and answers as callbacks. Both roles on one object. The shim puts it on unix sockets,
 * the zone agent's link puts it on packets. Not thread-safe: one owner. */
#ifndef RPC_TTRPC_H
#define RPC_TTRPC_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "rpc/msg.h"
#include "rpc/status.h"

#define TTRPC_MAX_DATA (4u << 20) /* of one frame, header not counted */

struct ttrpc_conn;

struct ttrpc_request {
	uint32_t stream;      /* names the call in ttrpc_conn_reply */
	const char *service;  /* "containerd.task.v2.Task" */
	const char *method;   /* "Create" */
	const uint8_t *payload;
	size_t payload_len;
	int64_t timeout_ns;   /* relative; 0 = none */
	bool server_stream, client_stream; /* from the flags */
	/* First value of a metadata key, or NULL. */
	const char *(*metadata)(const struct ttrpc_request *, const char *key);
	const void *envelope;
};

struct ttrpc_ops {
	void (*output)(void *user, const uint8_t *data, size_t len); /* bytes for the peer, a whole frame a call; must not call back into the connection */
	void (*request)(void *user, struct ttrpc_conn *, const struct ttrpc_request *); /* NULL: a pure client */
	/* Streams served: a message of the client (len 0 and data NULL: none), closed = it sends no more. May be NULL. */
	void (*data)(void *user, struct ttrpc_conn *, uint32_t stream, const uint8_t *data, size_t len, bool closed);
};

struct ttrpc_conn *ttrpc_conn_new(const struct ttrpc_ops *, void *user); /* ops are copied; NULL without memory */
/* Pending client calls end with UNAVAILABLE, callbacks included. May be called from within a callback; feed then returns -ESHUTDOWN. */
void ttrpc_conn_free(struct ttrpc_conn *);
/* 0, or negative when the peer cannot be followed any more (close then): -ENOMEM. An oversized frame is skipped and answered, not an error.
 * Not to be called from within a callback. */
int ttrpc_conn_feed(struct ttrpc_conn *, const uint8_t *data, size_t len, struct edera_error *);

void ttrpc_conn_reply(struct ttrpc_conn *, uint32_t stream, const ProtobufCMessage *); /* NULL: success without payload */
void ttrpc_conn_reply_error(struct ttrpc_conn *, uint32_t stream, enum rpc_status, const char *message);
/* One message of a stream, served or called; closed: this side sends no more (with NULL: nothing but that). For a served stream closed is the end, with
 * success. 0, -EPIPE (no such open stream) or -EMSGSIZE. */
int ttrpc_conn_send_data(struct ttrpc_conn *, uint32_t stream, const ProtobufCMessage *, bool closed);

/* status OK: payload is the answer's bytes (to be given to rpc_msg_unpack). Last callback of a call. */
typedef void (*ttrpc_answer)(void *user, enum rpc_status, const char *message, const uint8_t *payload, size_t len);
/* One message of a stream we called. */
typedef void (*ttrpc_data)(void *user, const uint8_t *data, size_t len);

/* Unary call; returns the stream id (odd, increasing) or a negative errno. metadata: key, value pairs ended by NULL, or NULL.
 * The timeout is sent; keeping it is the caller's business: ttrpc_conn_forget drops the call without an answer. */
int64_t ttrpc_conn_call(struct ttrpc_conn *, const char *service, const char *method, const ProtobufCMessage *request, int64_t timeout_ns,
			const char *const *metadata, ttrpc_answer, void *user);
/* Streaming call. client_stream: we will send data, until closed; else the request is all we say. The server ending its side is answer OK without payload. */
int64_t ttrpc_conn_open(struct ttrpc_conn *, const char *service, const char *method, const ProtobufCMessage *request, bool client_stream,
			int64_t timeout_ns, const char *const *metadata, ttrpc_data, ttrpc_answer, void *user);
void ttrpc_conn_forget(struct ttrpc_conn *, uint32_t stream);

#endif
