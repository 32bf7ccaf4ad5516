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
	wait_ms(50);
	CU_ASSERT_EQUAL(echo_stats.live, 0); /* the server's side has ended too */

	r = request();
	begin(&stream, "Bidi", 100, NULL);
	grpc_stream_send(stream.stream, &r.base);
	finish(&stream);
	CU_ASSERT_EQUAL(stream.messages, 1);
	CU_ASSERT_EQUAL(stream.status, RPC_DEADLINE_EXCEEDED);
	wait_ms(50);
	CU_ASSERT_EQUAL(echo_stats.live, 0);
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
	wait_ms(50);
	CU_ASSERT_EQUAL(echo_stats.live, 0);
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

int main(void)
{
	CU_pSuite suite;
	unsigned failed;

	if (!mkdtemp(dir) || CU_initialize_registry())
		return 99;
	snprintf(path, sizeof path, "%s/daemon.socket", dir);
	suite = CU_add_suite_with_setup_and_teardown("grpc", NULL, NULL, start, stop);
	CU_add_test(suite, "unary", test_unary);
	CU_add_test(suite, "streams", test_streams);
	CU_add_test(suite, "deadline", test_deadline);
	CU_add_test(suite, "cancel", test_cancel);
	CU_add_test(suite, "errors", test_errors);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	rmdir(dir);
	return failed ? 1 : 0;
}
