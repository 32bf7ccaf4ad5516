/* SPDX-License-Identifier: Apache-2.0 */
/* Our gRPC client against our gRPC server, on a socket in a temporary directory, both on one loop. */
#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "base/cleanup.h"
#include "echo_service.h"
#include "rpc/grpc.h"
#include "rpc/grpc_text.h"

#ifdef PROTECT_SANITIZED /* freed memory is kept for a while */
#define RSS_SLACK_KIB (512 << 10)
#else
#define RSS_SLACK_KIB (8 << 10)
#endif
#define ECHO_SERVICE (&test__echo__v1__echo__descriptor)

static char dir[] = "/tmp/test-grpc-XXXXXX", path[64];
static uv_loop_t loop;
static struct grpc_server *server;
static struct grpc_client *client;
static bool stopped;

static void on_stopped(void *user) { stopped = true; }

static void start(void)
{
	struct edera_error err = EDERA_ERROR_INIT;

	uv_loop_init(&loop);
	stopped = false;
	memset(&echo_stats, 0, sizeof echo_stats);
	server = grpc_server_new(&loop, &err);
	if (!server || grpc_server_add(server, &echo_service, &err) || grpc_server_listen_unix(server, path, 0600, getgid(), &err)) {
		printf("%s\n", err.msg);
		exit(1);
	}
	client = grpc_client_new(&loop, path, "test/1", &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(client);
}

static void stop(void)
{
	grpc_client_free(client);
	grpc_server_shutdown(server, 0, on_stopped, NULL);
	while (!stopped)
		uv_run(&loop, UV_RUN_ONCE);
	grpc_server_free(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL(echo_stats.live, 0);
	CU_ASSERT_EQUAL_FATAL(uv_loop_close(&loop), 0);
	CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
}

static void turns(int n)
{
	for (int i = 0; i < n; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static void wait_ms(uint64_t ms)
{
	for (uint64_t end = uv_hrtime() + ms * 1000000; uv_hrtime() < end;) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(500);
	}
}

/* Runs the loop until it holds, 10 s at most; the machine may be busy. */
#define AWAIT(what) \
	do { \
		for (uint64_t await_end = uv_hrtime() + 10000000000; !(what) && uv_hrtime() < await_end;) \
			wait_ms(1); \
		CU_ASSERT(what); \
	} while (0)

/* One call made by a test, and what came of it. */
struct probe {
	struct grpc_stream *stream;
	unsigned messages, writable, done;
	uint64_t bytes, last_number;
	bool in_order, pause_each, cancel_each, free_client, send_more;
	char text[64], message[4096];
	enum rpc_status status;
};

static void probe_message(struct grpc_stream *st, const ProtobufCMessage *m, void *user)
{
	const Test__Echo__V1__EchoReply *reply = (const Test__Echo__V1__EchoReply *)m;
	struct probe *p = user;

	CU_ASSERT_EQUAL(p->done, 0);
	p->messages++;
	p->bytes += reply->data.len;
	p->in_order = (p->messages == 1 || p->in_order) && reply->number == p->last_number + 1;
	p->last_number = reply->number;
	snprintf(p->text, sizeof p->text, "%s", reply->text);
	if (p->pause_each)
		grpc_stream_pause(st);
	if (p->cancel_each)
		grpc_stream_cancel(st);
	if (p->free_client) {
		grpc_client_free(client);
		client = NULL;
	}
}

static void probe_writable(struct grpc_stream *st, void *user)
{
	struct probe *p = user;

	p->writable++;
}

static void probe_done(struct grpc_stream *st, enum rpc_status status, const char *message, void *user)
{
	struct probe *p = user;

	p->done++;
	p->status = status;
	p->stream = NULL;
	snprintf(p->message, sizeof p->message, "%s", message);
}

static const struct grpc_stream_ops probe_ops = { probe_message, probe_writable, probe_done };

static Test__Echo__V1__EchoRequest request(void) { return (Test__Echo__V1__EchoRequest)TEST__ECHO__V1__ECHO_REQUEST__INIT; }

static void begin(struct probe *p, const char *method, uint64_t timeout_ms, const Test__Echo__V1__EchoRequest *r)
{
	p->stream = grpc_client_open(client, ECHO_SERVICE, method, timeout_ms, &probe_ops, p);
	if (r) {
		CU_ASSERT_EQUAL(grpc_stream_send(p->stream, &r->base), 0);
		grpc_stream_half_close(p->stream);
	}
}

static void finish(struct probe *p)
{
	for (uint64_t end = uv_hrtime() + 20000000000; !p->done && uv_hrtime() < end;)
		uv_run(&loop, UV_RUN_ONCE);
	CU_ASSERT_EQUAL(p->done, 1);
}

static int call_unary(const Test__Echo__V1__EchoRequest *r, uint64_t timeout_ms, Test__Echo__V1__EchoReply **ret, enum rpc_status *status,
		      struct edera_error *err)
{
	return grpc_client_unary(client, ECHO_SERVICE, "Unary", &r->base, timeout_ms, (ProtobufCMessage **)ret, status, err);
}

/* ---- the four kinds ---- */

static void test_unary(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	Test__Echo__V1__EchoRequest r = request();
	Test__Echo__V1__EchoReply *reply = NULL;
	enum rpc_status status = RPC_UNKNOWN;

	r.text = (char *)"grüße";
	CU_ASSERT_EQUAL_FATAL(call_unary(&r, 0, &reply, &status, &err), 0);
	CU_ASSERT_EQUAL(status, RPC_OK);
	CU_ASSERT_STRING_EQUAL(reply->text, "grüße");
	protobuf_c_message_free_unpacked(&reply->base, NULL);
}

static void test_streams(void)
{
	struct probe down = { 0 }, up = { 0 }, both = { 0 };
	Test__Echo__V1__EchoRequest r = request();

	r.count = 1000;
	r.size = 3000;
	begin(&down, "ServerStream", 0, &r);
	finish(&down);
	CU_ASSERT_EQUAL(down.status, RPC_OK);
	CU_ASSERT_EQUAL(down.messages, 1000);
	CU_ASSERT_EQUAL(down.bytes, 3000000);
	CU_ASSERT_TRUE(down.in_order);

	r = request();
	begin(&up, "ClientStream", 0, NULL);
	begin(&both, "Bidi", 0, NULL);
	for (int i = 0; i < 100; i++) {
		CU_ASSERT_EQUAL(grpc_stream_send(up.stream, &r.base), 0);
		CU_ASSERT_EQUAL(grpc_stream_send(both.stream, &r.base), 0);
		turns(i % 3);
	}
	grpc_stream_half_close(up.stream);
	grpc_stream_half_close(both.stream);
	finish(&up);
	finish(&both);
	CU_ASSERT_EQUAL(up.status, RPC_OK);
	CU_ASSERT_EQUAL(up.last_number, 100);
	CU_ASSERT_EQUAL(both.status, RPC_OK);
	CU_ASSERT_EQUAL(both.messages, 100);
	CU_ASSERT_TRUE(both.in_order);
}

/* ---- deadlines, cancellation ---- */

static void test_deadline(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	Test__Echo__V1__EchoRequest r = request();
	Test__Echo__V1__EchoReply *reply = NULL;
	enum rpc_status status = RPC_OK;
	uint64_t start = uv_hrtime();
	struct probe stream = { 0 };

	r.delay_ms = 5000;
	CU_ASSERT_EQUAL(call_unary(&r, 100, &reply, &status, &err), -ETIMEDOUT);
	CU_ASSERT_EQUAL(status, RPC_DEADLINE_EXCEEDED);
	CU_ASSERT(uv_hrtime() - start < 1000000000);
	AWAIT(echo_stats.live == 0); /* the server's side has ended too */

	r = request();
	begin(&stream, "Bidi", 100, NULL);
	grpc_stream_send(stream.stream, &r.base);
	finish(&stream);
	CU_ASSERT_EQUAL(stream.messages, 1);
	CU_ASSERT_EQUAL(stream.status, RPC_DEADLINE_EXCEEDED);
	AWAIT(echo_stats.live == 0);
}

static void test_cancel(void)
{
	struct probe p = { .cancel_each = true }, never = { 0 };
	Test__Echo__V1__EchoRequest r = request();

	begin(&p, "ServerStream", 0, &r); /* endless */
	finish(&p);
	CU_ASSERT_EQUAL(p.status, RPC_CANCELLED);
	CU_ASSERT_EQUAL(p.messages, 1);
	begin(&never, "ServerStream", 0, &r);
	grpc_stream_cancel(never.stream); /* before a byte was sent */
	CU_ASSERT_EQUAL(never.done, 0);
	finish(&never);
	CU_ASSERT_EQUAL(never.status, RPC_CANCELLED);
	AWAIT(echo_stats.live == 0);
	CU_ASSERT_EQUAL(echo_stats.cancelled, 1);
}

/* ---- errors ---- */

static void test_errors(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	Test__Echo__V1__EchoRequest r = request();
	ProtobufCMessage *reply = NULL;
	enum rpc_status status = RPC_OK;
	struct probe p = { 0 };

	r.code = RPC_NOT_FOUND;
	r.message = (char *)"zone 'é%41\t✓' is not there";
	CU_ASSERT_EQUAL(call_unary(&r, 0, (Test__Echo__V1__EchoReply **)&reply, &status, &err), -ENOENT);
	CU_ASSERT_EQUAL(status, RPC_NOT_FOUND);
	CU_ASSERT_STRING_EQUAL(err.msg, "zone 'é%41 ✓' is not there"); /* struct edera_error holds no control characters */
	begin(&p, "Unary", 0, &r);
	finish(&p);
	CU_ASSERT_STRING_EQUAL(p.message, r.message);
	r.count = 3; /* after messages, so in trailers */
	p = (struct probe){ 0 };
	begin(&p, "ServerStream", 0, &r);
	finish(&p);
	CU_ASSERT_EQUAL(p.messages, 3);
	CU_ASSERT_EQUAL(p.status, RPC_NOT_FOUND);
	CU_ASSERT_STRING_EQUAL(p.message, r.message);
	r = request();
	CU_ASSERT_EQUAL(grpc_client_unary(client, ECHO_SERVICE, "Unserved", &r.base, 0, &reply, &status, &err), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(status, RPC_UNIMPLEMENTED);
	CU_ASSERT_EQUAL(grpc_client_unary(client, ECHO_SERVICE, "Nonesuch", &r.base, 0, &reply, &status, &err), -EOPNOTSUPP);
	CU_ASSERT_PTR_NULL(reply);
}

/* ---- back-pressure ---- */

static void test_slow_reader(void)
{
	struct probe p = { .pause_each = true };
	Test__Echo__V1__EchoRequest r = request();
	uint64_t sent, before;

	r.size = 10000;
	begin(&p, "ServerStream", 0, &r); /* endless; the client pauses after one message */
	AWAIT(p.messages == 1);
	wait_ms(50);
	sent = echo_stats.sent_bytes;
	CU_ASSERT_EQUAL(p.messages, 1);
	/* At most the stream's window, the socket and the sender's queue. */
	CU_ASSERT(sent < 2 * GRPC_SEND_HIGH + (1 << 20));
	wait_ms(50);
	CU_ASSERT_EQUAL(echo_stats.sent_bytes, sent);
	before = sent;
	p.pause_each = false;
	grpc_stream_resume(p.stream);
	AWAIT(echo_stats.sent_bytes > before + (1 << 20)); /* flows again */
	CU_ASSERT_TRUE(p.in_order);
	grpc_stream_cancel(p.stream);
	finish(&p);
}

static void test_paused_end(void)
{
	struct probe p = { .pause_each = true };
	Test__Echo__V1__EchoRequest r = request();

	r.count = 3;
	r.code = RPC_ABORTED;
	begin(&p, "ServerStream", 0, &r);
	AWAIT(p.messages == 1);
	wait_ms(20);
	CU_ASSERT_EQUAL(p.messages, 1);
	CU_ASSERT_EQUAL(p.done, 0); /* the end is there, but behind messages not taken */
	grpc_stream_resume(p.stream);
	AWAIT(p.messages == 2);
	p.pause_each = false;
	grpc_stream_resume(p.stream);
	finish(&p);
	CU_ASSERT_EQUAL(p.messages, 3);
	CU_ASSERT_EQUAL(p.status, RPC_ABORTED);
}

static void test_server_pauses(void)
{
	struct probe p = { 0 }, other = { 0 };
	Test__Echo__V1__EchoRequest r = request();
	_free_ uint8_t *data = calloc(1, 10000);
	size_t accepted = 0;

	echo_stats.hold = true;
	r.data = (ProtobufCBinaryData){ .len = 10000, .data = data };
	begin(&p, "Bidi", 0, NULL);
	for (int i = 0; i < 1000; i++) {
		while (grpc_stream_writable(p.stream) && !grpc_stream_send(p.stream, &r.base))
			accepted += 10000;
		turns(1);
	}
	CU_ASSERT_EQUAL(echo_stats.got_messages, 1);
	CU_ASSERT(accepted < 1 << 20);
	/* Nobody else on the connection suffers. */
	r.size = 1000000;
	begin(&other, "Unary", 1000, &r);
	finish(&other);
	CU_ASSERT_EQUAL(other.status, RPC_OK);
	CU_ASSERT_EQUAL(other.bytes, 1000000);
	/* What ignores writable meets the bound. */
	while (grpc_stream_send(p.stream, &r.base) == 0)
		accepted += 10000;
	CU_ASSERT_EQUAL(grpc_stream_send(p.stream, &r.base), -EAGAIN);
	CU_ASSERT(accepted < GRPC_SEND_MAX + (1 << 20));
	CU_ASSERT_FALSE(grpc_stream_writable(p.stream));
	grpc_stream_cancel(p.stream);
	finish(&p);
}

static void test_both_ways_at_once(void)
{
	struct probe p = { 0 };
	Test__Echo__V1__EchoRequest r = request();
	_free_ uint8_t *data = calloc(1, 50000);

	r.data = (ProtobufCBinaryData){ .len = 50000, .data = data };
	begin(&p, "Bidi", 0, NULL);
	for (int sent = 0; sent < 2000;) { /* 100 MB each way */
		while (sent < 2000 && grpc_stream_writable(p.stream)) {
			CU_ASSERT_EQUAL(grpc_stream_send(p.stream, &r.base), 0);
			sent++;
		}
		uv_run(&loop, UV_RUN_ONCE);
		if (p.done)
			break;
	}
	grpc_stream_half_close(p.stream);
	finish(&p);
	CU_ASSERT_EQUAL(p.status, RPC_OK);
	CU_ASSERT_EQUAL(p.messages, 2000);
	CU_ASSERT_TRUE(p.in_order);
	CU_ASSERT(p.writable > 10);
}

/* ---- sizes ---- */

static void test_sizes(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	Test__Echo__V1__EchoRequest r = request();
	Test__Echo__V1__EchoReply *reply = NULL;
	_free_ uint8_t *data = calloc(1, 9 << 20);
	enum rpc_status status;
	struct probe p = { 0 };

	r.data = (ProtobufCBinaryData){ .len = 3900 << 10, .data = data };
	CU_ASSERT_EQUAL_FATAL(call_unary(&r, 0, &reply, &status, &err), 0);
	CU_ASSERT_EQUAL(reply->data.len, 3900 << 10);
	protobuf_c_message_free_unpacked(&reply->base, NULL);
	r.data.len = 5 << 20;
	CU_ASSERT_EQUAL(call_unary(&r, 0, &reply, &status, &err), rpc_errno_of_status(RPC_RESOURCE_EXHAUSTED));
	CU_ASSERT_EQUAL(status, RPC_RESOURCE_EXHAUSTED);
	r.data.len = 9 << 20;
	CU_ASSERT_EQUAL(call_unary(&r, 0, &reply, &status, &err), -EMSGSIZE);
	CU_ASSERT_EQUAL(status, RPC_RESOURCE_EXHAUSTED);
	r.data.len = 0;
	r.size = 5 << 20; /* the server may send it, the client does not take it */
	begin(&p, "ServerStream", 0, &r);
	finish(&p);
	CU_ASSERT_EQUAL(p.status, RPC_RESOURCE_EXHAUSTED);
	CU_ASSERT_EQUAL(p.messages, 0);
	r.size = 9 << 20;
	CU_ASSERT_EQUAL(call_unary(&r, 0, &reply, &status, &err), rpc_errno_of_status(RPC_RESOURCE_EXHAUSTED));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "too large"));
	r.size = 0;
	CU_ASSERT_EQUAL(call_unary(&r, 0, &reply, &status, &err), 0); /* the connection lives */
	protobuf_c_message_free_unpacked(&reply->base, NULL);
}

static void test_bad_strings(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	Test__Echo__V1__EchoRequest r = request();
	Test__Echo__V1__EchoReply *reply = NULL;
	char text[] = "guest\xff";
	enum rpc_status status;

	r.text = text; /* made valid on its way out */
	CU_ASSERT_EQUAL_FATAL(call_unary(&r, 0, &reply, &status, &err), 0);
	CU_ASSERT_STRING_EQUAL(reply->text, "guest?");
	protobuf_c_message_free_unpacked(&reply->base, NULL);
}

/* ---- life and death ---- */

static void test_many_calls(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	Test__Echo__V1__EchoRequest r = request();
	Test__Echo__V1__EchoReply *reply;
	enum rpc_status status;
	uint64_t rss = 0;

	r.text = (char *)"x";
	for (int i = 0; i < 10000; i++) {
		if (i == 1000)
			rss = echo_rss_kib();
		if (call_unary(&r, 10000, &reply, &status, &err)) {
			CU_FAIL_FATAL("a call failed");
		}
		protobuf_c_message_free_unpacked(&reply->base, NULL);
	}
	CU_ASSERT_EQUAL(echo_stats.begun, 10000);
	CU_ASSERT(echo_rss_kib() < rss + RSS_SLACK_KIB);
}

static void test_concurrent(void)
{
	static struct probe p[3000]; /* more than the server allows at once */
	Test__Echo__V1__EchoRequest r = request();
	unsigned ok = 0;

	memset(p, 0, sizeof p);
	r.delay_ms = 20;
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		begin(&p[i], "Unary", 0, &r);
	for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
		finish(&p[i]);
		ok += p[i].status == RPC_OK && p[i].messages == 1;
	}
	CU_ASSERT_EQUAL(ok, ARRAY_SIZE(p));
}

static void test_client_gone(void)
{
	struct probe p[10] = { { 0 } };
	Test__Echo__V1__EchoRequest r = request();

	for (int i = 0; i < 10; i++) {
		begin(&p[i], i % 2 ? "Bidi" : "ServerStream", 0, i % 2 ? NULL : &r);
		if (i % 2)
			CU_ASSERT_EQUAL(grpc_stream_send(p[i].stream, &r.base), 0);
	}
	AWAIT(echo_stats.live == 10);
	grpc_client_free(client);
	client = NULL;
	for (int i = 0; i < 10; i++) {
		CU_ASSERT_EQUAL(p[i].done, 1);
		CU_ASSERT_EQUAL(p[i].status, RPC_CANCELLED);
	}
	AWAIT(echo_stats.live == 0);
}

static void test_free_in_callback(void)
{
	struct probe p = { .free_client = true }, other = { 0 };
	Test__Echo__V1__EchoRequest r = request();

	r.count = 5;
	begin(&other, "Bidi", 0, NULL);
	begin(&p, "ServerStream", 0, &r);
	finish(&p);
	CU_ASSERT_EQUAL(p.messages, 1);
	CU_ASSERT_EQUAL(p.status, RPC_CANCELLED);
	CU_ASSERT_EQUAL(other.done, 1);
}

static void free_in_done(struct grpc_stream *st, enum rpc_status status, const char *message, void *user)
{
	grpc_client_free(client);
	client = NULL;
	probe_done(st, status, message, user);
}

static void test_free_in_done(void)
{
	static const struct grpc_stream_ops ops = { probe_message, NULL, free_in_done };
	Test__Echo__V1__EchoRequest r = request();
	struct probe p = { 0 }, other = { 0 };

	begin(&other, "Bidi", 0, NULL);
	p.stream = grpc_client_open(client, ECHO_SERVICE, "Unary", 0, &ops, &p);
	grpc_stream_send(p.stream, &r.base);
	grpc_stream_half_close(p.stream);
	finish(&p);
	CU_ASSERT_EQUAL(p.status, RPC_OK);
	CU_ASSERT_EQUAL(other.status, RPC_CANCELLED);
}

static void test_no_server(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	Test__Echo__V1__EchoRequest r = request();
	ProtobufCMessage *reply;
	enum rpc_status status;
	struct grpc_client *c = grpc_client_new(&loop, "unix:///nonexistent/daemon.socket", "test/1", &err);

	CU_ASSERT_EQUAL(grpc_client_unary(c, ECHO_SERVICE, "Unary", &r.base, 1000, &reply, &status, &err), -ECONNREFUSED);
	CU_ASSERT_EQUAL(status, RPC_UNAVAILABLE);
	CU_ASSERT_STRING_EQUAL(err.msg, "cannot connect to /nonexistent/daemon.socket: No such file or directory");
	grpc_client_free(c);
	CU_ASSERT_PTR_NULL(grpc_client_new(&loop, "http://localhost", "test/1", &err));
	CU_ASSERT_EQUAL(err.code, -EINVAL);
	CU_ASSERT_PTR_NULL(grpc_client_new(&loop, "/a/path/that/is/much/too/long/for/a/socket/which/can/have/no/more/than/one/hundred/and/seven/bytes/of/a/name",
					   "test/1", &err));
	CU_ASSERT_EQUAL(err.code, -ENAMETOOLONG);
}

static void test_shutdown(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct probe slow = { 0 }, endless = { 0 }, late = { 0 };
	Test__Echo__V1__EchoRequest r = request();
	Test__Echo__V1__EchoReply *reply;
	enum rpc_status status;
	uint64_t begun;

	r.delay_ms = 100;
	begin(&slow, "Unary", 0, &r);
	begin(&endless, "Bidi", 0, NULL);
	CU_ASSERT_EQUAL(grpc_stream_send(endless.stream, &r.base), 0);
	wait_ms(20);
	begun = uv_hrtime();
	grpc_server_shutdown(server, 300, on_stopped, NULL);
	wait_ms(20);
	begin(&late, "Unary", 0, &r); /* GOAWAY has been seen: a new connection, which nobody takes */
	finish(&late);
	CU_ASSERT_EQUAL(late.status, RPC_UNAVAILABLE);
	finish(&slow);
	CU_ASSERT_EQUAL(slow.status, RPC_OK); /* within its grace */
	finish(&endless);
	CU_ASSERT_EQUAL(endless.status, RPC_UNAVAILABLE);
	CU_ASSERT_STRING_EQUAL(endless.message, "the server is shutting down");
	while (!stopped)
		uv_run(&loop, UV_RUN_ONCE);
	CU_ASSERT(uv_hrtime() - begun < 900000000);
	CU_ASSERT_EQUAL(echo_stats.live, 0);
	grpc_server_free(server);

	/* The same client finds the next server. */
	stopped = false;
	server = grpc_server_new(&loop, &err);
	grpc_server_add(server, &echo_service, &err);
	CU_ASSERT_EQUAL_FATAL(grpc_server_listen_unix(server, path, 0600, getgid(), &err), 0);
	r = request();
	CU_ASSERT_EQUAL_FATAL(call_unary(&r, 1000, &reply, &status, &err), 0);
	protobuf_c_message_free_unpacked(&reply->base, NULL);
}

static void test_listen(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;
	char other[80];
	int fd;

	CU_ASSERT(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	CU_ASSERT_EQUAL(grpc_server_listen_unix(server, path, 0600, getgid(), &err), -EADDRINUSE);
	snprintf(other, sizeof other, "%s/other", dir);
	fd = open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	CU_ASSERT_EQUAL(grpc_server_listen_unix(server, other, 0600, getgid(), &err), -EEXIST);
	unlink(other);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", other);
	CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	close(fd); /* left behind by somebody who died */
	CU_ASSERT_EQUAL(grpc_server_listen_unix(server, other, 0660, getgid(), &err), 0);
	CU_ASSERT(stat(other, &st) == 0 && (st.st_mode & 07777) == 0660);
}

/* ---- texts ---- */

static void text_round(const char *plain, const char *coded)
{
	_free_ char *to = grpc_text_encode(plain), *back = grpc_text_decode(coded, strlen(coded));

	CU_ASSERT_STRING_EQUAL(to, coded);
	CU_ASSERT_STRING_EQUAL(back, plain);
}

static void test_texts(void)
{
	_free_ char *odd = grpc_text_decode("50% of %zz%4", 12), *nul = grpc_text_decode("a%00b", 5), *bad = grpc_text_decode("%ff\xfe", 4), *cut = NULL;
	char timeout[16], longer[3000];
	uint64_t ns = 0;

	text_round("plain text", "plain text");
	text_round("100%", "100%25");
	text_round("\t\xc3\xa9\n", "%09%C3%A9%0A");
	text_round("", "");
	CU_ASSERT_STRING_EQUAL(odd, "50% of %zz%4");
	CU_ASSERT_STRING_EQUAL(nul, "a%00b");
	CU_ASSERT_STRING_EQUAL(bad, "??");
	memset(longer, 'x', sizeof longer);
	memcpy(longer + GRPC_TEXT_MESSAGE_MAX - 2, "\xe2\x9c\x93", 3); /* across the cut */
	longer[sizeof longer - 1] = 0;
	cut = grpc_text_encode(longer);
	CU_ASSERT_EQUAL(strlen(cut), GRPC_TEXT_MESSAGE_MAX - 2);

	CU_ASSERT(grpc_text_parse_timeout("100m", 4, &ns) == 0 && ns == 100000000);
	CU_ASSERT(grpc_text_parse_timeout("2H", 2, &ns) == 0 && ns == 7200000000000);
	CU_ASSERT(grpc_text_parse_timeout("0n", 2, &ns) == 0 && ns == 0);
	CU_ASSERT(grpc_text_parse_timeout("99999999H", 9, &ns) == 0 && ns < INT64_MAX);
	CU_ASSERT_EQUAL(grpc_text_parse_timeout("", 0, &ns), -EINVAL);
	CU_ASSERT_EQUAL(grpc_text_parse_timeout("m", 1, &ns), -EINVAL);
	CU_ASSERT_EQUAL(grpc_text_parse_timeout("-1m", 3, &ns), -EINVAL);
	CU_ASSERT_EQUAL(grpc_text_parse_timeout("123456789m", 10, &ns), -EINVAL);
	CU_ASSERT_EQUAL(grpc_text_parse_timeout("1x", 2, &ns), -EINVAL);
	grpc_text_format_timeout(timeout, 1500);
	CU_ASSERT_STRING_EQUAL(timeout, "1500m");
	grpc_text_format_timeout(timeout, 100000000000);
	CU_ASSERT_STRING_EQUAL(timeout, "99999999S");

	CU_ASSERT_TRUE(grpc_text_is_content_type("application/grpc", 16));
	CU_ASSERT_TRUE(grpc_text_is_content_type("application/grpc+proto", 22));
	CU_ASSERT_FALSE(grpc_text_is_content_type("application/grpc-web", 20));
	CU_ASSERT_FALSE(grpc_text_is_content_type("text/html", 9));
	CU_ASSERT_EQUAL(grpc_text_parse_status("5", 1), RPC_NOT_FOUND);
	CU_ASSERT_EQUAL(grpc_text_parse_status("17", 2), RPC_UNKNOWN);
	CU_ASSERT_EQUAL(grpc_text_parse_status("", 0), RPC_UNKNOWN);
	CU_ASSERT_EQUAL(grpc_text_parse_status("0x", 2), RPC_UNKNOWN);
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "unary", test_unary }, { "streams", test_streams }, { "deadline", test_deadline }, { "cancel", test_cancel }, { "errors", test_errors },
		{ "slow reader", test_slow_reader }, { "paused end", test_paused_end }, { "server pauses", test_server_pauses },
		{ "both ways at once", test_both_ways_at_once }, { "sizes", test_sizes }, { "bad strings", test_bad_strings }, { "10,000 calls", test_many_calls },
		{ "concurrent", test_concurrent }, { "client gone", test_client_gone }, { "free in callback", test_free_in_callback },
		{ "free in done", test_free_in_done }, { "no server", test_no_server }, { "shutdown", test_shutdown }, { "listen", test_listen },
		{ "texts", test_texts },
		CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { .pName = "grpc", .pSetUpFunc = start, .pTearDownFunc = stop, .pTests = tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	if (!mkdtemp(dir) || CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	snprintf(path, sizeof path, "%s/daemon.socket", dir);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	rmdir(dir);
	return failed ? 1 : 0;
}
