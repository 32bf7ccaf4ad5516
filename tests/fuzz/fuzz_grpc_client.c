/* SPDX-License-Identifier: Apache-2.0 */
/* What something that poses as the daemon might send to our client, which has one call of each kind open. Every call must end, and end once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "echo_service.h"
#include "rpc/unix_socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static char path[64];
static int accepted = -1;
static unsigned messages, ended;

static void on_accepted(void *user, int fd)
{
	if (accepted >= 0)
		close(accepted);
	accepted = fd;
}

static void remove_socket(void) { unlink(path); }

static void start(void)
{
	struct edera_error err = EDERA_ERROR_INIT;

	uv_loop_init(&loop);
	snprintf(path, sizeof path, "/tmp/fuzz-grpc-client-%d", (int)getpid());
	atexit(remove_socket);
	if (!unix_listener_new(&loop, path, 0600, getgid(), on_accepted, NULL, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
}

static void turns(int n)
{
	while (n--)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static void on_message(struct grpc_stream *st, const ProtobufCMessage *m, void *user)
{
	if (++messages % 5 == 0)
		grpc_stream_pause(st);
	if (messages % 7 == 0)
		grpc_stream_cancel(st);
}

static void on_done(struct grpc_stream *st, enum rpc_status status, const char *message, void *user)
{
	bool *done = user;

	if (*done || !message)
		abort();
	*done = true;
	ended++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct grpc_stream_ops ops = { on_message, NULL, on_done };
	static const char *const methods[] = { "Unary", "ServerStream", "ClientStream", "Bidi" };
	Test__Echo__V1__EchoRequest request = TEST__ECHO__V1__ECHO_REQUEST__INIT;
	struct grpc_client *client;
	bool done[4] = { false };

	if (!path[0])
		start();
	messages = ended = 0;
	client = grpc_client_new(&loop, path, "fuzz", NULL);
	for (int i = 0; i < 4; i++) {
		struct grpc_stream *st = grpc_client_open(client, &test__echo__v1__echo__descriptor, methods[i], 0, &ops, &done[i]);

		grpc_stream_send(st, &request.base);
		if (i < 2)
			grpc_stream_half_close(st);
	}
	while (accepted < 0)
		turns(1);
	for (size_t at = 0, rounds = 0; at < size && rounds < 1000; rounds++) {
		ssize_t n = send(accepted, data + at, size - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			break;
		at += n > 0 ? (size_t)n : 0;
		turns(2);
	}
	turns(2);
	grpc_client_free(client);
	if (ended != 4)
		abort();
	close(accepted);
	accepted = -1;
	turns(4);
	return 0;
}
