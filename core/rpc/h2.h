/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP/2 connection (nghttp2 on a unix socket) and the gRPC message streams on it; what server and client share. Internal to core/rpc.
 *
 * The application is never called from within nghttp2 or from within a function it called itself: what happens is noted on the stream,
 * the stream goes on the connection's ready list, and the list is run from the loop. So a callback may do anything to its stream,
 * end it or take the whole client down.
 *
 * Bounds: a stream holds at most its window unread while paused and one message of GRPC_RECEIVE_MAX while a message arrives; a connection holds at most
 * H2_BUFFERED_MAX of both. Queued output is bounded by GRPC_SEND_MAX a stream and by H2_QUEUED_MAX and one H2_SMALL_MESSAGE of each stream a connection,
 * frames waiting in nghttp2 by H2_FRAMES_MAX. */
#ifndef RPC_H2_H
#define RPC_H2_H

#include <nghttp2/nghttp2.h>
#include <string.h>
#include <sys/queue.h>
#include <uv.h>
#include "base/buf.h"
#include "rpc/grpc.h"

#define GRPC_RECEIVE_MAX (4u << 20)
#define H2_STREAMS_MAX 1024u
#define H2_STREAM_WINDOW (256 << 10)
#define H2_CONN_WINDOW (1 << 20)
#define H2_BUFFERED_MAX (64u << 20)
#define H2_QUEUED_MAX (64u << 20)
#define H2_SMALL_MESSAGE (64u << 10) /* what a stream may always queue */
#define H2_CROWDED_HIGH (16u << 10) /* instead of GRPC_SEND_HIGH when a quarter of H2_QUEUED_MAX is taken */
#define H2_FRAMES_MAX 8192u
#define H2_HEADER_LIST_MAX (16u << 10)

struct h2_conn;
struct h2_chunk;
struct h2_deadline;

struct h2_stream {
	struct h2_conn *conn;
	int32_t id;                /* 0 once nghttp2 has let go of it */
	TAILQ_ENTRY(h2_stream) link, ready_link;

	struct buf in;             /* received, not delivered */
	size_t held;               /* received bytes whose window has not been given back */
	size_t header_bytes;

	struct h2_chunk *out, **out_tail;
	size_t queued;
	struct h2_deadline *deadline;

	bool ready, busy, dead;    /* on the ready list; being run; to be freed when run is over */
	bool paused;
	bool discard;              /* nothing more is taken from the peer */
	bool opened, open_told;    /* headers complete; role->opened called */
	bool remote_end, end_told; /* the peer's side is complete; role->half_closed called */
	bool choked, writable_due;
	bool ending, ended;        /* our side ends when the queue is empty; it has ended */
	bool over_budget;          /* more arrived than the connection may hold */
	bool deadline_due;
	bool closed, lost;         /* gone in HTTP/2; with its transport */
	bool aborted;              /* nothing more is delivered, only role->closed is due */
	uint32_t close_code;
};

struct h2_role {
	bool server; /* else every stream is ours, and its end is role->half_closed unless it was aborted */
	/* Called from within nghttp2: take notes only. */
	struct h2_stream *(*accept)(struct h2_conn *); /* server: a stream for a new request, NULL refuses it */
	void (*header)(struct h2_stream *, const char *name, const char *value, size_t len); /* of headers or trailers */
	void (*trailers)(struct h2_stream *);          /* server: all is sent, submit them */
	void (*goaway)(struct h2_conn *);              /* client: the peer takes no more streams; may be NULL */
	/* Called from the loop, in this order for a stream, as far as they happen. */
	void (*opened)(struct h2_stream *);
	void (*message)(struct h2_stream *, const uint8_t *data, size_t len);
	void (*refused)(struct h2_stream *, enum rpc_status, const char *why); /* what the peer sends is not taken; the rest is discarded */
	void (*half_closed)(struct h2_stream *);
	void (*writable)(struct h2_stream *);
	void (*deadline)(struct h2_stream *);
	void (*closed)(struct h2_stream *);            /* aborted, or over in HTTP/2; to be ended with h2_stream_free */
	void (*gone)(struct h2_conn *);                /* the connection has no stream and no transport; freed after */
};

TAILQ_HEAD(h2_conns, h2_conn);

struct h2_conn {
	uv_loop_t *loop;
	uv_poll_t poll;            /* our own, and not a uv_pipe_t, whose writes raise SIGPIPE */
	int fd;                    /* -1 before it is started and after it is closed */
	uv_idle_t idle;            /* active while there is something to run */
	unsigned handles;          /* of libuv, not closed yet */
	nghttp2_session *session;  /* NULL once the transport is closed */
	const struct h2_role *role;
	void *owner;
	TAILQ_ENTRY(h2_conn) link; /* the owner's */
	TAILQ_HEAD(h2_streams, h2_stream) streams, ready;
	struct buf out;            /* bytes of nghttp2's that are being written */
	size_t out_done;           /* written of it */
	size_t n_streams, queued, buffered;
	bool started, blocked;     /* blocked: waiting for the socket to take more */
	bool draining, closing, ending;
	bool starved;              /* a sender met H2_QUEUED_MAX */
	char why[200];             /* what ended the transport, "" if the peer closed it */
};

/* ---- connection (h2.c) ---- */

struct h2_conn *h2_conn_new(uv_loop_t *, const struct h2_role *, void *owner); /* NULL without memory; not yet on a socket */
int h2_conn_start(struct h2_conn *, int fd); /* takes the connected, non-blocking socket; on failure (negative errno) closes the connection */
void h2_conn_close(struct h2_conn *);   /* at once; streams end from the loop */
void h2_conn_drain(struct h2_conn *);   /* GOAWAY; closes when the last stream has ended */
void h2_conn_fail(struct h2_conn *, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* close, with a reason */
void h2_conn_wake(struct h2_conn *);    /* have it run from the loop */

/* ---- stream (h2_stream.c) ---- */

void h2_stream_init(struct h2_stream *, struct h2_conn *);
void h2_stream_free(struct h2_stream *);   /* of malloc'd memory that starts with the h2_stream; put off while its callbacks run */
void h2_stream_ready(struct h2_stream *);
void h2_stream_run(struct h2_stream *);    /* its callbacks that are due */
void h2_stream_received(struct h2_stream *, const uint8_t *data, size_t len);
void h2_stream_discard(struct h2_stream *); /* what the peer sent and will send is dropped */
void h2_stream_abort(struct h2_stream *);
int h2_stream_send(struct h2_stream *, const ProtobufCMessage *); /* 0, -EAGAIN, -EMSGSIZE, -ENOMEM */
void h2_stream_drop_output(struct h2_stream *);
void h2_stream_end(struct h2_stream *);    /* our side ends after what is queued */
void h2_stream_reset(struct h2_stream *, uint32_t code);
void h2_stream_set_paused(struct h2_stream *, bool);
int h2_stream_set_deadline(struct h2_stream *, uint64_t timeout_ms);
nghttp2_data_provider h2_stream_provider(void);

static inline nghttp2_nv h2_nv(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)name, .value = (uint8_t *)value, .namelen = strlen(name), .valuelen = strlen(value) };
}

#endif
