/* SPDX-License-Identifier: Apache-2.0 */
/* What a ttrpc peer might send. The first byte chooses the side and how the bytes are cut. What we answer must itself be well-formed frames. */
#include <stdlib.h>
#include <string.h>
#include "rpc/ttrpc.h"
#include "ttrpc.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_output(void *user, const uint8_t *data, size_t len)
{
	if (len < 10 || len - 10 != ((size_t)data[0] << 24 | (size_t)data[1] << 16 | (size_t)data[2] << 8 | data[3]) || len - 10 > TTRPC_MAX_DATA)
		abort();
	if (data[8] == 2 && rpc_msg_check(&ttrpc__response__descriptor, data + 10, len - 10, NULL, NULL))
		abort();
}

/* The method's first letter says what becomes of the call. */
static void on_request(void *user, struct ttrpc_conn *conn, const struct ttrpc_request *r)
{
	Ttrpc__KeyValue reply = TTRPC__KEY_VALUE__INIT;

	r->metadata(r, "containerd-namespace-ttrpc");
	reply.key = (char *)r->service;
	switch (*r->method) {
	case 'e':
		ttrpc_conn_reply_error(conn, r->stream, RPC_NOT_FOUND, r->service);
		break;
	case 'd':
		ttrpc_conn_send_data(conn, r->stream, &reply.base, false);
		ttrpc_conn_send_data(conn, r->stream, NULL, true);
		break;
	case 'f':
		ttrpc_conn_free(conn);
		break;
	case 'n':
		break;
	default:
		ttrpc_conn_reply(conn, r->stream, *r->method ? &reply.base : NULL);
	}
}

static void on_data(void *user, struct ttrpc_conn *conn, uint32_t stream, const uint8_t *data, size_t len, bool closed)
{
	if (closed)
		ttrpc_conn_reply(conn, stream, NULL);
}

struct answers { unsigned got, expected; };

static void on_answer(void *user, enum rpc_status status, const char *message, const uint8_t *payload, size_t len)
{
	struct answers *answers = user;

	if (++answers->got > answers->expected || !message)
		abort();
}

static void on_stream_data(void *user, const uint8_t *data, size_t len) {}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ttrpc_ops server = { on_output, on_request, on_data }, client = { on_output, NULL, NULL };
	struct answers answers = { .expected = 4 };
	struct ttrpc_conn *conn;
	size_t piece;

	if (!size)
		return 0;
	piece = (size_t)(data[0] >> 1) + 1;
	conn = ttrpc_conn_new(data[0] & 1 ? &client : &server, NULL);
	for (int i = 0; data[0] & 1 && i < 2; i++) {
		ttrpc_conn_call(conn, "s", "m", NULL, 0, NULL, on_answer, &answers);
		ttrpc_conn_open(conn, "s", "m", NULL, i, 0, NULL, on_stream_data, on_answer, &answers);
	}
	for (size_t at = 1; at < size; at += piece)
		if (ttrpc_conn_feed(conn, data + at, size - at < piece ? size - at : piece, NULL) == -ESHUTDOWN)
			return 0;
	ttrpc_conn_free(conn);
	if (data[0] & 1 && answers.got != answers.expected)
		abort();
	return 0;
}
