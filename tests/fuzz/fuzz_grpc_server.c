/* SPDX-License-Identifier: Apache-2.0 */
/* What a client might send to the gRPC server. An even first byte puts HTTP/2's preface and SETTINGS in front, so that mutations get to the frames behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "echo_service.h"
#include "rpc/unix_socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" "\0\0\0\4\0\0\0\0\0"

static uv_loop_t loop;
static char path[64];

static void remove_socket(void) { unlink(path); }

static void start(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct grpc_server *server;

	uv_loop_init(&loop);
	snprintf(path, sizeof path, "/tmp/fuzz-grpc-server-%d", (int)getpid());
	atexit(remove_socket);
	server = grpc_server_new(&loop, &err);
	if (!server || grpc_server_add(server, &echo_service, &err) || grpc_server_listen_unix(server, path, 0600, getgid(), &err)) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
}

static void turns(int n)
{
	while (n--)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* Both ways until the peer has said all and the server has nothing more to say or does not go on. */
static void talk(int fd, const uint8_t *data, size_t size)
{
	static uint8_t back[1 << 16];
	size_t read = 0;
	ssize_t n;

	for (int rounds = 0; rounds < 1000; rounds++) {
		n = size ? send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
		if (n > 0) {
			data += n;
			size -= (size_t)n;
		} else if (n < 0 && errno != EAGAIN) {
			break;
		}
		turns(2);
		n = recv(fd, back, sizeof back, MSG_DONTWAIT);
		if (n > 0)
			read += (size_t)n;
		if ((n <= 0 && !size) || n == 0 || read > 4 << 20)
			break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd;

	if (!path[0])
		start();
	if (!size)
		return 0;
	fd = unix_socket_connect(path);
	if (fd < 0)
		abort();
	if (data[0] % 2 == 0)
		talk(fd, (const uint8_t *)PREFACE, sizeof PREFACE - 1);
	talk(fd, data + 1, size - 1);
	close(fd);
	for (int i = 0; i < 100 && (echo_stats.live || i < 4); i++)
		turns(1);
	if (echo_stats.live)
		abort(); /* a call outlived its client */
	return 0;
}
