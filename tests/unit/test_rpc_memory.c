/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a session of calls fails once: nothing may crash, hang, or be left behind. libuv's own are left out, because it
 * aborts by design. */
#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/cleanup.h"
#include "echo.pb-c.h"
#include "rpc/grpc.h"
#include "rpc/ttrpc_server.h"

/* ---- malloc that fails on demand (glibc calls ours instead of its own) ---- */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static long live;        /* allocations not freed yet */
static long fail_at = -1; /* this many more succeed; below 0 all do */
static bool failed;

static bool from_libuv(void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libuv");
}

static bool fails(void *caller)
{
	if (fail_at < 0 || from_libuv(caller) || fail_at-- > 0)
		return false;
	failed = true;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t n)
{
	void *p = fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);

	live += p != NULL;
	return p;
}

void *calloc(size_t n, size_t size)
{
	void *p = fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);

	live += p != NULL;
	return p;
}

void *realloc(void *old, size_t n)
{
	void *p = fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, n);

	live += !old && p;
	return p;
}

void free(void *p)
{
	live -= p != NULL;
	__libc_free(p);
}

/* ---- gRPC ---- */

static char dir[] = "/tmp/test-rpc-memory-XXXXXX", path[64];
static uv_loop_t loop;
static bool stopped;
static unsigned open_calls;

static void on_stopped(void *user) { stopped = true; }

static void send_one(struct grpc_call *call)
{
	Test__Echo__V1__EchoReply reply = TEST__ECHO__V1__ECHO_REPLY__INIT;
	static uint8_t data[1000];

	reply.data = (ProtobufCBinaryData){ .len = sizeof data, .data = data };
	if (grpc_call_send(call, &reply.base) == -ENOMEM)
		grpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
}

static void note_open(struct grpc_call *call)
{
	open_calls += !grpc_call_user(call);
	grpc_call_set_user(call, &loop);
}

static void on_unary(struct grpc_call *call, const ProtobufCMessage *m)
{
	Test__Echo__V1__EchoReply reply = TEST__ECHO__V1__ECHO_REPLY__INIT;

	note_open(call);
	grpc_call_reply(call, &reply.base);
}

static void on_server_stream(struct grpc_call *call, const ProtobufCMessage *m)
{
	note_open(call);
	for (int i = 0; i < 3; i++)
		send_one(call);
	grpc_call_finish(call, RPC_NOT_FOUND, "nothing mo\xcc\x88re");
}

static void on_bidi(struct grpc_call *call, const ProtobufCMessage *m)
{
	note_open(call);
	send_one(call);
}

static void on_bidi_end(struct grpc_call *call) { grpc_call_finish(call, RPC_OK, NULL); }

static void on_closed(struct grpc_call *call) { open_calls -= grpc_call_user(call) != NULL; }

static const struct grpc_method methods[] = {
	{ .name = "Unary", .message = on_unary, .closed = on_closed },
	{ .name = "ServerStream", .server_stream = true, .message = on_server_stream, .closed = on_closed },
	{ .name = "Bidi", .server_stream = true, .client_stream = true, .message = on_bidi, .half_closed = on_bidi_end, .closed = on_closed },
};
static const struct grpc_service service = { .descriptor = &test__echo__v1__echo__descriptor, .methods = methods, .n_methods = ARRAY_SIZE(methods) };

static void on_message(struct grpc_stream *st, const ProtobufCMessage *m, void *user) {}

static void on_done(struct grpc_stream *st, enum rpc_status status, const char *message, void *user) { ++*(unsigned *)user; }

static const struct grpc_stream_ops ops = { on_message, NULL, on_done };

static void call_all(struct grpc_client *client)
{
	Test__Echo__V1__EchoRequest request = TEST__ECHO__V1__ECHO_REQUEST__INIT;
	struct edera_error err = EDERA_ERROR_INIT;
	ProtobufCMessage *reply = NULL;
	struct grpc_stream *stream, *bidi;
	unsigned done = 0, opened;

	if (!grpc_client_unary(client, &test__echo__v1__echo__descriptor, "Unary", &request.base, 5000, &reply, NULL, &err))
		protobuf_c_message_free_unpacked(reply, NULL);
	else
		CU_ASSERT(failed && *err.msg);
	stream = grpc_client_open(client, &test__echo__v1__echo__descriptor, "ServerStream", 5000, &ops, &done);
	bidi = grpc_client_open(client, &test__echo__v1__echo__descriptor, "Bidi", 5000, &ops, &done);
	opened = (stream != NULL) + (bidi != NULL);
	if (stream && grpc_stream_send(stream, &request.base))
		grpc_stream_cancel(stream);
	if (stream)
		grpc_stream_half_close(stream);
	for (int i = 0; bidi && i < 3; i++)
		if (grpc_stream_send(bidi, &request.base))
			grpc_stream_cancel(bidi);
	if (bidi)
		grpc_stream_half_close(bidi);
	for (uint64_t end = uv_hrtime() + 10000000000; done < opened && uv_hrtime() < end;)
		uv_run(&loop, UV_RUN_ONCE);
	CU_ASSERT_EQUAL(done, opened);
}

static void grpc_session(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct grpc_server *server;
	struct grpc_client *client = NULL;

	uv_loop_init(&loop);
	stopped = false;
	server = grpc_server_new(&loop, &err);
	if (server && !grpc_server_add(server, &service, &err) && !grpc_server_listen_unix(server, path, 0600, getgid(), &err))
		client = grpc_client_new(&loop, path, "test/1", &err);
	if (client)
		call_all(client);
	else
		CU_ASSERT(failed && err.code == -ENOMEM);
	grpc_client_free(client);
	if (server) {
		grpc_server_shutdown(server, 0, on_stopped, NULL);
		while (!stopped)
			uv_run(&loop, UV_RUN_ONCE);
	}
	grpc_server_free(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL(open_calls, 0);
	CU_ASSERT_EQUAL_FATAL(uv_loop_close(&loop), 0);
}

/* ---- ttrpc ---- */

static void on_request(void *user, struct ttrpc_socket *s, const struct ttrpc_request *r)
{
	Test__Echo__V1__EchoReply reply = TEST__ECHO__V1__ECHO_REPLY__INIT;

	if (r->server_stream)
		ttrpc_conn_send_data(ttrpc_socket_conn(s), r->stream, &reply.base, true);
	else
		ttrpc_conn_reply(ttrpc_socket_conn(s), r->stream, &reply.base);
}

static void on_data(void *user, const uint8_t *data, size_t len) {}

static void on_answer(void *user, enum rpc_status status, const char *message, const uint8_t *payload, size_t len) { ++*(unsigned *)user; }

static void ttrpc_session(void)
{
	static const struct ttrpc_socket_ops serving = { .request = on_request }, calling = { NULL };
	static const char *const metadata[] = { "a", "b", NULL };
	Test__Echo__V1__EchoRequest request = TEST__ECHO__V1__ECHO_REQUEST__INIT;
	struct edera_error err = EDERA_ERROR_INIT;
	struct ttrpc_server *server;
	struct ttrpc_socket *s = NULL;
	unsigned answers = 0, calls = 0;

	uv_loop_init(&loop);
	server = ttrpc_server_new(&loop, &serving, NULL, &err);
	if (server && !ttrpc_server_listen_unix(server, path, 0600, &err))
		s = ttrpc_socket_connect(&loop, path, &calling, NULL, &err);
	if (s) {
		request.text = (char *)"x";
		calls += ttrpc_conn_call(ttrpc_socket_conn(s), "s", "m", &request.base, 0, metadata, on_answer, &answers) > 0;
		calls += ttrpc_conn_open(ttrpc_socket_conn(s), "s", "m", &request.base, false, 0, metadata, on_data, on_answer, &answers) > 0;
		/* A server without memory may leave a call unanswered, or the connection. */
		for (int i = 0; i < 20 && answers < calls; i++)
			uv_run(&loop, UV_RUN_NOWAIT);
		CU_ASSERT(failed || answers == 2);
		ttrpc_socket_close(s);
		CU_ASSERT_EQUAL(answers, calls);
	}
	ttrpc_socket_unref(s);
	ttrpc_server_free(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL_FATAL(uv_loop_close(&loop), 0);
}

/* ---- all of them ---- */

static void fail_each(void (*session)(void))
{
	long n = 0;

	session(); /* whatever is allocated once and for all */
	do {
		long before = live;

		failed = false;
		fail_at = n++;
		session();
		fail_at = -1;
		if (live != before)
			printf("\n%ld left after failure %ld\n", live - before, n - 1);
		CU_ASSERT_EQUAL(live, before);
	} while (failed && n < 10000);
	CU_ASSERT(n > 10);
	printf("%ld allocations ", n - 1);
}

static void test_grpc(void) { fail_each(grpc_session); }

static void test_ttrpc(void) { fail_each(ttrpc_session); }

int main(void)
{
	static CU_TestInfo tests[] = { { "gRPC", test_grpc }, { "ttrpc", test_ttrpc }, CU_TEST_INFO_NULL };
	static CU_SuiteInfo suites[] = { { .pName = "without memory", .pTests = tests }, CU_SUITE_INFO_NULL };
	unsigned failures;

	if (!mkdtemp(dir) || CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	snprintf(path, sizeof path, "%s/socket", dir);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failures = CU_get_number_of_failures();
	CU_cleanup_registry();
	rmdir(dir);
	return failures ? 1 : 0;
}
