/* SPDX-License-Identifier: Apache-2.0 */
/* ttrpc against frames captured from containerd, against itself, and on sockets. */
#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/buf.h"
#include "rpc/ttrpc.h"
#include "rpc/ttrpc_server.h"
#include "ttrpc.pb-c.h"

/* ---- recording ---- */

static struct ttrpc_conn *conn;
static struct buf out, log_text;
static char reply_text[64];
static bool free_in_request, reply_at_once;

static void on_output(void *user, const uint8_t *data, size_t len) { buf_append(&out, data, len); }

static void on_request(void *user, struct ttrpc_conn *c, const struct ttrpc_request *r)
{
	const char *namespace = r->metadata(r, "containerd-namespace-ttrpc");

	buf_printf(&log_text, "%u %s/%s %zu bytes timeout %lld ns=%s%s%s;", r->stream, r->service, r->method, r->payload_len, (long long)r->timeout_ns,
		   namespace ? namespace : "-", r->client_stream ? " client-stream" : "", r->server_stream ? " server-stream" : "");
	if (free_in_request) {
		ttrpc_conn_free(c);
		conn = NULL;
	} else if (reply_at_once) {
		ttrpc_conn_reply(c, r->stream, NULL);
	}
}

static void on_data(void *user, struct ttrpc_conn *c, uint32_t stream, const uint8_t *data, size_t len, bool closed)
{
	buf_printf(&log_text, "%u data %s %zu%s;", stream, data ? "yes" : "none", len, closed ? " closed" : "");
}

static void on_answer(void *user, enum rpc_status status, const char *message, const uint8_t *payload, size_t len)
{
	buf_printf(&log_text, "answer %s %s '%s' %zu;", (char *)user, rpc_status_name(status), message, len);
}

static void on_stream_data(void *user, const uint8_t *data, size_t len) { buf_printf(&log_text, "%s got %zu;", (char *)user, len); }

static const struct ttrpc_ops server_ops = { on_output, on_request, on_data }, client_ops = { on_output, NULL, NULL };

static void start(void)
{
	free_in_request = reply_at_once = false;
	conn = ttrpc_conn_new(&server_ops, reply_text);
}

static void stop(void)
{
	ttrpc_conn_free(conn);
	buf_free(&out);
	buf_free(&log_text);
}

static void start_client(void)
{
	stop();
	conn = ttrpc_conn_new(&client_ops, NULL);
}

static const char *logged(void)
{
	static char copy[4096];

	snprintf(copy, sizeof copy, "%s", log_text.data ? (char *)log_text.data : "");
	buf_clear(&log_text);
	return copy;
}

static void feed_hex(const char *hex)
{
	_buf_ struct buf b = BUF_INIT;

	for (; *hex; hex += *hex == ' ' ? 1 : 2) {
		char two[3] = { hex[0], hex[1], 0 };
		uint8_t byte = (uint8_t)strtoul(two, NULL, 16);

		if (*hex != ' ')
			buf_append(&b, &byte, 1);
	}
	CU_ASSERT_EQUAL(ttrpc_conn_feed(conn, b.data, b.len, NULL), 0);
}

static void feed_frame(uint32_t stream, uint8_t type, uint8_t flags, const void *data, uint32_t len)
{
	uint8_t header[10] = { (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, (uint8_t)(stream >> 24), (uint8_t)(stream >> 16),
			       (uint8_t)(stream >> 8), (uint8_t)stream, type, flags };

	CU_ASSERT_EQUAL(ttrpc_conn_feed(conn, header, sizeof header, NULL), 0);
	CU_ASSERT_EQUAL(ttrpc_conn_feed(conn, data, len, NULL), 0);
}

static void feed_request(uint32_t stream, uint8_t flags)
{
	static const uint8_t envelope[] = "\x0a\x01s\x12\x01m";

	feed_frame(stream, 1, flags, envelope, sizeof envelope - 1);
}

/* What went out since the last call, as hex, cut. */
static const char *sent(void)
{
	static char hex[1024];

	hex[0] = 0;
	for (size_t i = 0; i < out.len && i < 500; i++)
		sprintf(hex + 2 * i, "%02x", out.data[i]);
	buf_clear(&out);
	return hex;
}

/* The status code of the one response frame that went out on `stream`, -1 if it is something else. */
static int sent_status(uint32_t stream)
{
	Ttrpc__Response *response;
	int code = -1;

	if (out.len >= 10 && out.data[7] == stream && out.data[8] == 2 && out.data[9] == 0 && out.len == 10u + ((size_t)out.data[2] << 8 | out.data[3])) {
		response = ttrpc__response__unpack(NULL, out.len - 10, out.data + 10);
		if (response) {
			code = response->status ? response->status->code : 0;
			ttrpc__response__free_unpacked(response, NULL);
		}
	}
	buf_clear(&out);
	return code;
}

/* ---- served ---- */

#define TASK_CONNECT "00000028 00000003 01 00 0a17 636f6e7461696e6572642e7461736b2e76322e5461736b 1207 436f6e6e656374 1a04 0a02 6531"

static void test_captured(void)
{
	feed_hex(TASK_CONNECT);
	CU_ASSERT_STRING_EQUAL(logged(), "3 containerd.task.v2.Task/Connect 4 bytes timeout 0 ns=-;");
}

static void test_captured_state(void)
{
	feed_hex("0000002c 00000005 01 00 0a17 636f6e7461696e6572642e7461736b2e76322e5461736b 1205 5374617465 1a04 0a02 6531 20 adf6d5b907");
	CU_ASSERT_STRING_EQUAL(logged(), "5 containerd.task.v2.Task/State 4 bytes timeout 1999993645 ns=-;");
	ttrpc_conn_reply(conn, 5, NULL);
	CU_ASSERT_STRING_EQUAL(sent(), "00000000000000050200"); /* as containerd answers Forward */
	ttrpc_conn_reply_error(conn, 5, RPC_NOT_FOUND, "no such task");
	CU_ASSERT_STRING_EQUAL(sent(), "00000012000000050200" "0a10" "0805" "120c" "6e6f2073756368207461736b");
}

static void test_byte_by_byte(void)
{
	const char *hex = TASK_CONNECT;

	for (; *hex; hex += *hex == ' ' ? 1 : 2) {
		char two[3] = { hex[0], hex[1], 0 };

		if (*hex != ' ')
			feed_hex(two);
	}
	CU_ASSERT_STRING_EQUAL(logged(), "3 containerd.task.v2.Task/Connect 4 bytes timeout 0 ns=-;");
	feed_request(5, 0);
	CU_ASSERT_STRING_EQUAL(logged(), "5 s/m 0 bytes timeout 0 ns=-;");
}

static void test_metadata(void)
{
	static const uint8_t envelope[] = "\x0a\x01s\x12\x01m\x2a\x06\x0a\x01x\x12\x01y\x2a\x24\x0a\x1a" "containerd-namespace-ttrpc" "\x12\x06" "k8s.io";

	feed_frame(1, 1, 0, envelope, sizeof envelope - 1);
	CU_ASSERT_STRING_EQUAL(logged(), "1 s/m 0 bytes timeout 0 ns=k8s.io;");
}

static void test_stream_ids(void)
{
	feed_request(5, 0);
	logged();
	feed_request(4, 0); /* even */
	CU_ASSERT_EQUAL(sent_status(4), RPC_INVALID_ARGUMENT);
	feed_request(0, 0);
	CU_ASSERT_EQUAL(sent_status(0), RPC_INVALID_ARGUMENT);
	feed_request(5, 0); /* again */
	CU_ASSERT_EQUAL(sent_status(5), RPC_INVALID_ARGUMENT);
	feed_request(3, 0); /* backwards */
	CU_ASSERT_EQUAL(sent_status(3), RPC_INVALID_ARGUMENT);
	feed_frame(7, 3, 0, "x", 1); /* data on a stream that is not there */
	CU_ASSERT_EQUAL(sent_status(7), RPC_INVALID_ARGUMENT);
	CU_ASSERT_STRING_EQUAL(logged(), "");
	feed_request(9, 0); /* the connection lives */
	CU_ASSERT_STRING_EQUAL(logged(), "9 s/m 0 bytes timeout 0 ns=-;");
}

static void test_unknown_types(void)
{
	feed_frame(1, 4, 0, "abc", 3);
	feed_frame(1, 0, 0, "", 0);
	feed_frame(1, 255, 255, "abc", 3);
	feed_frame(1, 2, 0, "", 0); /* an answer nobody asked for */
	CU_ASSERT_STRING_EQUAL(sent(), "");
	feed_request(1, 0);
	CU_ASSERT_STRING_EQUAL(logged(), "1 s/m 0 bytes timeout 0 ns=-;");
}

static void test_bad_envelope(void)
{
	feed_frame(1, 1, 0, "\xff\xff", 2);
	CU_ASSERT_EQUAL(sent_status(1), RPC_INVALID_ARGUMENT);
	feed_frame(3, 1, 0, "\x0a\x02s\x00", 4); /* a NUL in the service's name */
	CU_ASSERT_EQUAL(sent_status(3), RPC_INVALID_ARGUMENT);
	CU_ASSERT_STRING_EQUAL(logged(), "");
}

static void test_oversize(void)
{
	uint32_t len = TTRPC_MAX_DATA + 1;
	uint8_t *zeros = calloc(1, len);

	feed_frame(1, 1, 0, zeros, len);
	CU_ASSERT_EQUAL(sent_status(1), RPC_RESOURCE_EXHAUSTED);
	feed_request(1, 0); /* its id is used up */
	CU_ASSERT_EQUAL(sent_status(1), RPC_INVALID_ARGUMENT);
	feed_frame(3, 9, 0, zeros, len); /* of an unknown type: nobody is told */
	CU_ASSERT_STRING_EQUAL(sent(), "");
	feed_request(3, 0);
	CU_ASSERT_STRING_EQUAL(logged(), "3 s/m 0 bytes timeout 0 ns=-;");
	feed_frame(5, 1, 0, zeros, TTRPC_MAX_DATA); /* as large as allowed, though no envelope */
	CU_ASSERT_EQUAL(sent_status(5), RPC_INVALID_ARGUMENT);
	free(zeros);
}

static void test_large_answer(void)
{
	Ttrpc__Any any = TTRPC__ANY__INIT;

	any.value.len = TTRPC_MAX_DATA;
	any.value.data = calloc(1, any.value.len);
	feed_request(1, 0);
	ttrpc_conn_reply(conn, 1, &any.base);
	CU_ASSERT_EQUAL(sent_status(1), RPC_RESOURCE_EXHAUSTED);
	free(any.value.data);
}

static void test_streams_served(void)
{
	Ttrpc__KeyValue m = TTRPC__KEY_VALUE__INIT;

	m.key = (char *)"k";
	feed_request(1, 1); /* the server streams */
	feed_request(3, 2); /* the client streams */
	CU_ASSERT_STRING_EQUAL(logged(), "1 s/m 0 bytes timeout 0 ns=- server-stream;3 s/m 0 bytes timeout 0 ns=- client-stream server-stream;");
	CU_ASSERT_EQUAL(ttrpc_conn_send_data(conn, 1, &m.base, true), 0);
	CU_ASSERT_STRING_EQUAL(sent(), "00000003000000010300" "0a016b" "00000000000000010305");
	CU_ASSERT_EQUAL(ttrpc_conn_send_data(conn, 1, &m.base, false), -EPIPE);
	feed_frame(3, 3, 0, "ab", 2);
	feed_frame(3, 3, 0, "", 0); /* an empty message is one */
	feed_frame(3, 3, 5, "", 0);
	CU_ASSERT_STRING_EQUAL(logged(), "3 data yes 2;3 data yes 0;3 data none 0 closed;");
	feed_frame(3, 3, 0, "ab", 2); /* after its end */
	CU_ASSERT_EQUAL(sent_status(3), RPC_INVALID_ARGUMENT);
	feed_frame(1, 3, 0, "ab", 2); /* the client said it would not */
	CU_ASSERT_EQUAL(sent_status(1), RPC_INVALID_ARGUMENT);
}

static void test_many_streams(void)
{
	for (uint32_t i = 0; i < 1024; i++)
		feed_request(2 * i + 1, 2);
	CU_ASSERT_STRING_EQUAL(sent(), "");
	feed_request(2 * 1024 + 1, 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(sent(), "0000080102000a"));
}

static void test_free_in_callback(void)
{
	_buf_ struct buf two = BUF_INIT;
	static const uint8_t frame[] = "\0\0\0\6\0\0\0\1\1\0\x0a\x01s\x12\x01m";

	free_in_request = true;
	buf_append(&two, frame, sizeof frame - 1);
	buf_append(&two, frame, sizeof frame - 1);
	CU_ASSERT_EQUAL(ttrpc_conn_feed(conn, two.data, two.len, NULL), -ESHUTDOWN);
	CU_ASSERT_STRING_EQUAL(logged(), "1 s/m 0 bytes timeout 0 ns=-;");
}

/* ---- called ---- */

static void test_call(void)
{
	Ttrpc__KeyValue m = TTRPC__KEY_VALUE__INIT;
	const char *metadata[] = { "a", "b", NULL };

	start_client();
	m.key = (char *)"k";
	CU_ASSERT_EQUAL(ttrpc_conn_call(conn, "s", "m", &m.base, 5, metadata, on_answer, (void *)"one"), 1);
	CU_ASSERT_STRING_EQUAL(sent(), "00000015000000010100" "0a0173" "12016d" "1a03" "0a016b" "2005" "2a06" "0a0161" "120162");
	CU_ASSERT_EQUAL(ttrpc_conn_call(conn, "s", "m", NULL, 0, NULL, on_answer, (void *)"two"), 3);
	CU_ASSERT_EQUAL(ttrpc_conn_call(conn, "s", "m", NULL, 0, NULL, on_answer, (void *)"three"), 5);
	CU_ASSERT_EQUAL(ttrpc_conn_call(conn, "s", "m", NULL, 0, NULL, on_answer, (void *)"four"), 7);
	feed_frame(3, 2, 0, "", 0);
	feed_hex("00000006 00000001 02 00 12 04 61626364");
	feed_hex("00000009 00000005 02 00 0a 07 08 05 12 03 677561");
	feed_frame(5, 2, 0, "", 0); /* twice */
	feed_frame(9, 2, 0, "", 0); /* never asked */
	CU_ASSERT_STRING_EQUAL(logged(), "answer two OK '' 0;answer one OK '' 4;answer three NOT_FOUND 'gua' 0;");
	ttrpc_conn_forget(conn, 7);
	feed_frame(7, 2, 0, "", 0);
	CU_ASSERT_STRING_EQUAL(logged(), "");
	CU_ASSERT_EQUAL(ttrpc_conn_call(conn, "s", "m", NULL, 0, NULL, on_answer, (void *)"five"), 9);
	feed_frame(9, 2, 0, "\xff", 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(logged(), "answer five INTERNAL"));
	ttrpc_conn_call(conn, "s", "m", NULL, 0, NULL, on_answer, (void *)"six");
	ttrpc_conn_free(conn);
	conn = NULL;
	CU_ASSERT_STRING_EQUAL(logged(), "answer six UNAVAILABLE 'the connection was closed' 0;");
}

static void test_call_oversize(void)
{
	uint32_t len = TTRPC_MAX_DATA + 1;
	Ttrpc__Any any = TTRPC__ANY__INIT;
	uint8_t *zeros = calloc(1, len);

	start_client();
	ttrpc_conn_call(conn, "s", "m", NULL, 0, NULL, on_answer, (void *)"one");
	feed_frame(1, 2, 0, zeros, len);
	CU_ASSERT_PTR_NOT_NULL(strstr(logged(), "answer one RESOURCE_EXHAUSTED"));
	any.value = (ProtobufCBinaryData){ .len = TTRPC_MAX_DATA, .data = zeros };
	CU_ASSERT_EQUAL(ttrpc_conn_call(conn, "s", "m", &any.base, 0, NULL, on_answer, NULL), -EMSGSIZE);
	free(zeros);
}

static void test_streams_called(void)
{
	Ttrpc__KeyValue m = TTRPC__KEY_VALUE__INIT;

	start_client();
	CU_ASSERT_EQUAL(ttrpc_conn_open(conn, "s", "m", NULL, true, 0, NULL, on_stream_data, on_answer, (void *)"one"), 1);
	CU_ASSERT_EQUAL(ttrpc_conn_open(conn, "s", "m", NULL, false, 0, NULL, on_stream_data, on_answer, (void *)"two"), 3);
	CU_ASSERT_STRING_EQUAL(sent(), "00000006000000010102" "0a017312016d" "00000006000000030101" "0a017312016d");
	CU_ASSERT_EQUAL(ttrpc_conn_send_data(conn, 1, &m.base, false), 0);
	CU_ASSERT_EQUAL(ttrpc_conn_send_data(conn, 1, NULL, true), 0);
	CU_ASSERT_EQUAL(ttrpc_conn_send_data(conn, 1, &m.base, false), -EPIPE);
	CU_ASSERT_EQUAL(ttrpc_conn_send_data(conn, 3, &m.base, false), -EPIPE);
	CU_ASSERT_STRING_EQUAL(sent(), "00000000000000010300" "00000000000000010305");
	feed_frame(3, 3, 0, "ab", 2);
	feed_frame(3, 3, 1, "abc", 3); /* last, with data */
	feed_frame(1, 2, 0, "", 0);    /* ended by an answer */
	CU_ASSERT_STRING_EQUAL(logged(), "two got 2;two got 3;answer two OK '' 0;answer one OK '' 0;");
}

/* ---- on sockets ---- */

static uv_loop_t loop;
static unsigned closed_sockets;
static struct ttrpc_socket *late;
static uint32_t late_stream;

static void socket_request(void *user, struct ttrpc_socket *s, const struct ttrpc_request *r)
{
	Ttrpc__Any any = TTRPC__ANY__INIT;

	if (strcmp(r->method, "Later") == 0) {
		late = ttrpc_socket_ref(s);
		late_stream = r->stream;
		return;
	}
	any.value = (ProtobufCBinaryData){ .len = r->payload_len, .data = (uint8_t *)r->payload };
	ttrpc_conn_reply(ttrpc_socket_conn(s), r->stream, &any.base);
}

static void socket_closed(void *user, struct ttrpc_socket *s) { closed_sockets++; }

static const struct ttrpc_socket_ops socket_ops = { .request = socket_request, .closed = socket_closed }, caller_ops = { .closed = socket_closed };

struct count { unsigned answers; size_t bytes; enum rpc_status status; };

static void count_answer(void *user, enum rpc_status status, const char *message, const uint8_t *payload, size_t len)
{
	struct count *count = user;

	count->answers++;
	count->bytes += len;
	count->status = status;
}

static void run_until(const unsigned *what, unsigned value)
{
	for (uint64_t end = uv_hrtime() + 10000000000; *what < value && uv_hrtime() < end;)
		uv_run(&loop, UV_RUN_ONCE);
	CU_ASSERT_EQUAL(*what, value);
}

static void test_sockets(void)
{
	char dir[] = "/tmp/test-ttrpc-XXXXXX", path[64];
	struct ttrpc_server *server;
	struct ttrpc_socket *s;
	struct count count = { 0 };
	Ttrpc__Any any = TTRPC__ANY__INIT;
	struct stat st;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/s", dir);
	uv_loop_init(&loop);
	server = ttrpc_server_new(&loop, &socket_ops, NULL, NULL);
	CU_ASSERT_EQUAL_FATAL(ttrpc_server_listen_unix(server, path, 0600, NULL), 0);
	CU_ASSERT(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
	s = ttrpc_socket_connect(&loop, path, &caller_ops, NULL, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	any.value = (ProtobufCBinaryData){ .len = 1 << 20, .data = calloc(1, 1 << 20) };
	for (int i = 0; i < 40; i++) /* 40 MiB each way, far more than sockets hold */
		CU_ASSERT(ttrpc_conn_call(ttrpc_socket_conn(s), "s", "Echo", &any.base, 0, NULL, count_answer, &count) > 0);
	run_until(&count.answers, 40);
	CU_ASSERT_EQUAL(count.status, RPC_OK);
	CU_ASSERT(count.bytes > 40u << 20);
	CU_ASSERT_EQUAL(ttrpc_server_connections(server), 1);

	ttrpc_conn_call(ttrpc_socket_conn(s), "s", "Later", NULL, 0, NULL, count_answer, &count);
	while (!late)
		uv_run(&loop, UV_RUN_ONCE);
	ttrpc_socket_close(s);
	CU_ASSERT_EQUAL(count.answers, 41);
	CU_ASSERT_EQUAL(count.status, RPC_UNAVAILABLE);
	CU_ASSERT_PTR_NULL(ttrpc_socket_conn(s));
	ttrpc_socket_unref(s);
	run_until(&closed_sockets, 2);
	CU_ASSERT_PTR_NULL(ttrpc_socket_conn(late)); /* its answer has nowhere to go */
	ttrpc_socket_unref(late);
	ttrpc_server_free(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL(uv_loop_close(&loop), 0);
	CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
	rmdir(dir);
	free(any.value.data);
}

/* A caller that sends and never reads: what is queued for it stays bounded, and it costs the server nothing else. */
static void test_deaf_peer(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ttrpc_server *server;
	uint8_t *request = calloc(1, 100000);
	size_t accepted = 0;
	socklen_t len = sizeof address.sun_family;

	uv_loop_init(&loop);
	closed_sockets = 0;
	CU_ASSERT_EQUAL(bind(listening, (struct sockaddr *)&address, len), 0); /* a name of the kernel's choosing */
	len = sizeof address;
	getsockname(listening, (struct sockaddr *)&address, &len);
	CU_ASSERT_EQUAL(listen(listening, 1), 0);
	server = ttrpc_server_new(&loop, &socket_ops, NULL, NULL);
	CU_ASSERT_EQUAL(ttrpc_server_listen_fd(server, listening, NULL), 0);
	CU_ASSERT_EQUAL(connect(fd, (struct sockaddr *)&address, len), 0);
	for (uint32_t i = 0; i < 2000; i++) {
		uint32_t stream = 2 * i + 1, n = 100000 - 10;
		size_t done = 0;

		memset(request, 0, 100000);
		request[1] = (uint8_t)(n >> 16), request[2] = (uint8_t)(n >> 8), request[3] = (uint8_t)n;
		request[6] = (uint8_t)(stream >> 8), request[7] = (uint8_t)stream, request[8] = 1;
		memcpy(request + 10, "\x0a\x01s\x12\x01m\x1a", 7);
		n -= 10;
		request[17] = (uint8_t)(n | 0x80), request[18] = (uint8_t)(n >> 7 | 0x80), request[19] = (uint8_t)(n >> 14);
		for (int tries = 0; done < 100000 && tries < 50; tries++) {
			ssize_t w = send(fd, request + done, 100000 - done, MSG_NOSIGNAL);

			done += w > 0 ? (size_t)w : 0;
			uv_run(&loop, UV_RUN_NOWAIT);
		}
		accepted += done;
		if (done < 100000)
			break;
	}
	CU_ASSERT(accepted > 1u << 20);
	CU_ASSERT(accepted < 8u << 20);
	CU_ASSERT_EQUAL(closed_sockets, 0);
	close(fd);
	run_until(&closed_sockets, 1);
	ttrpc_server_free(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL(uv_loop_close(&loop), 0);
	free(request);
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "captured Connect", test_captured }, { "captured State", test_captured_state }, { "byte by byte", test_byte_by_byte },
		{ "metadata", test_metadata }, { "stream ids", test_stream_ids }, { "unknown types", test_unknown_types }, { "bad envelope", test_bad_envelope },
		{ "oversize", test_oversize }, { "large answer", test_large_answer }, { "streams served", test_streams_served },
		{ "many streams", test_many_streams }, { "free in callback", test_free_in_callback }, { "call", test_call },
		{ "call oversize", test_call_oversize }, { "streams called", test_streams_called }, { "sockets", test_sockets }, { "deaf peer", test_deaf_peer },
		CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { .pName = "ttrpc", .pSetUpFunc = start, .pTearDownFunc = stop, .pTests = tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	if (CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed ? 1 : 0;
}
