/* SPDX-License-Identifier: Apache-2.0 */
/* The echo service as programs for foreign peers:
 *   grpc_echo serve SOCKET                  until SIGTERM, which shuts down gracefully
 *   grpc_echo call SOCKET METHOD [KEY=N]... one call, or `calls` of them at once; prints what came of it
 * Keys: the request's (text, count, size, data, delay, code, message), and calls, send, timeout, cancel, pause; and repeat: blocking unary calls one after the
 * other, which are timed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/cleanup.h"
#include "echo_service.h"
#include "rpc/grpc.h"

static uv_loop_t loop;

/* ---- serve ---- */

static void on_term(uv_signal_t *signal, int number)
{
	uv_close((uv_handle_t *)signal, NULL);
	grpc_server_shutdown(signal->data, 2000, NULL, NULL);
}

static int serve(const char *path)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct grpc_server *server = grpc_server_new(&loop, &err);
	uv_signal_t term;

	if (!server || grpc_server_add(server, &echo_service, &err) || grpc_server_listen_unix(server, path, 0600, getgid(), &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	uv_signal_init(&loop, &term);
	term.data = server;
	uv_signal_start(&term, on_term, SIGTERM);
	puts("ready");
	fflush(stdout);
	uv_run(&loop, UV_RUN_DEFAULT);
	grpc_server_free(server);
	return uv_loop_close(&loop) ? 1 : 0;
}

/* ---- call ---- */

struct outcome {
	struct grpc_stream *stream;
	unsigned to_send;
	uint64_t messages, bytes, last;
};

static Test__Echo__V1__EchoRequest request = TEST__ECHO__V1__ECHO_REQUEST__INIT;
static uint64_t count, size, delay_ms, code, data_size, calls = 1, to_send = 1, timeout_ms, cancel_after, pause_ms, repeat;
static unsigned ended, statuses[RPC_UNAUTHENTICATED + 1];
static uv_timer_t pausing;

static void send_some(struct grpc_stream *stream, void *user)
{
	struct outcome *o = user;

	while (o->to_send && grpc_stream_writable(stream)) {
		grpc_stream_send(stream, &request.base);
		if (--o->to_send == 0)
			grpc_stream_half_close(stream);
	}
}

static void after_pause(uv_timer_t *timer)
{
	struct outcome *o = timer->data;

	if (o->stream)
		grpc_stream_resume(o->stream);
}

static void on_message(struct grpc_stream *stream, const ProtobufCMessage *m, void *user)
{
	const Test__Echo__V1__EchoReply *reply = (const Test__Echo__V1__EchoReply *)m;
	struct outcome *o = user;

	o->messages++;
	o->bytes += reply->data.len;
	o->last = reply->number;
	if (o->messages == 1 && *reply->text)
		printf("text=%s\n", reply->text);
	if (o->messages == 1 && pause_ms) {
		grpc_stream_pause(stream);
		pausing.data = o;
		uv_timer_start(&pausing, after_pause, pause_ms, 0);
	}
	if (o->messages == cancel_after)
		grpc_stream_cancel(stream);
}

static void on_done(struct grpc_stream *stream, enum rpc_status status, const char *message, void *user)
{
	struct outcome *o = user;

	o->stream = NULL;
	ended++;
	statuses[status]++;
	if (calls == 1)
		printf("status=%s\nmessage=%s\nmessages=%llu\nbytes=%llu\nlast=%llu\n", rpc_status_name(status), message, (unsigned long long)o->messages,
		       (unsigned long long)o->bytes, (unsigned long long)o->last);
}

static int set_key(const char *arg)
{
	static const struct { const char *name; uint64_t *number; char **text; } keys[] = {
		{ "text", NULL, &request.text }, { "message", NULL, &request.message }, { "count", &count, NULL }, { "size", &size, NULL },
		{ "delay", &delay_ms, NULL }, { "code", &code, NULL }, { "data", &data_size, NULL }, { "calls", &calls, NULL }, { "send", &to_send, NULL },
		{ "timeout", &timeout_ms, NULL }, { "cancel", &cancel_after, NULL }, { "pause", &pause_ms, NULL },
		{ "repeat", &repeat, NULL },
	};
	size_t n = strcspn(arg, "=");

	for (size_t i = 0; arg[n] && i < ARRAY_SIZE(keys); i++) {
		if (strlen(keys[i].name) != n || strncmp(arg, keys[i].name, n))
			continue;
		if (keys[i].text)
			*keys[i].text = (char *)arg + n + 1;
		else
			*keys[i].number = strtoull(arg + n + 1, NULL, 10);
		return 0;
	}
	return -1;
}

static void fill_request(void)
{
	request.count = (uint32_t)count;
	request.size = (uint32_t)size;
	request.delay_ms = (uint32_t)delay_ms;
	request.code = (uint32_t)code;
	request.data = (ProtobufCBinaryData){ .len = data_size, .data = calloc(1, data_size + 1) };
}

static void call_repeatedly(struct grpc_client *client, const char *method)
{
	struct edera_error err = EDERA_ERROR_INIT;
	uint64_t start = uv_hrtime();

	for (uint64_t i = 0; i < repeat; i++) {
		ProtobufCMessage *reply;

		if (grpc_client_unary(client, &test__echo__v1__echo__descriptor, method, &request.base, timeout_ms, &reply, NULL, &err)) {
			printf("error=%s\n", err.msg);
			return;
		}
		protobuf_c_message_free_unpacked(reply, NULL);
	}
	printf("us_per_call=%.2f\n", (double)(uv_hrtime() - start) / 1000 / (double)repeat);
}

static void call_at_once(struct grpc_client *client, const char *method, struct outcome *outcomes)
{
	static const struct grpc_stream_ops ops = { on_message, send_some, on_done };
	uint64_t start = uv_hrtime();

	for (uint64_t i = 0; i < calls; i++) {
		outcomes[i].to_send = (unsigned)to_send;
		outcomes[i].stream = grpc_client_open(client, &test__echo__v1__echo__descriptor, method, timeout_ms, &ops, &outcomes[i]);
		send_some(outcomes[i].stream, &outcomes[i]);
	}
	while (ended < calls)
		uv_run(&loop, UV_RUN_ONCE);
	for (int i = 0; calls > 1 && i <= RPC_UNAUTHENTICATED; i++)
		if (statuses[i])
			printf("%s=%u\n", rpc_status_name((enum rpc_status)i), statuses[i]);
	printf("seconds=%.4f\n", (double)(uv_hrtime() - start) / 1e9);
}

static int call(const char *path, const char *method)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct grpc_client *client = grpc_client_new(&loop, path, "grpc_echo/1", &err);
	struct outcome *outcomes = calloc(calls, sizeof *outcomes);

	if (!client) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	uv_timer_init(&loop, &pausing);
	if (repeat)
		call_repeatedly(client, method);
	else
		call_at_once(client, method, outcomes);
	printf("rss_kib=%llu\n", (unsigned long long)echo_rss_kib());
	grpc_client_free(client);
	uv_close((uv_handle_t *)&pausing, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	free(outcomes);
	free(request.data.data);
	return uv_loop_close(&loop) ? 1 : 0;
}

int main(int argc, char **argv)
{
	uv_loop_init(&loop);
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2]);
	if (argc < 4 || strcmp(argv[1], "call"))
		return 2;
	for (int i = 4; i < argc; i++)
		if (set_key(argv[i]))
			return 2;
	fill_request();
	return call(argv[2], argv[3]);
}
