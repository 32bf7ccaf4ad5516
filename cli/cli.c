/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/interrupt.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void cli_free_message(void *p)
{
	protobuf_c_message_free_unpacked(*(ProtobufCMessage **)p, NULL);
}

const ProtobufCServiceDescriptor *cli_service(enum service s)
{
	return s == NODE ? &edera__node__v1__node_service__descriptor : &protect__control__v1__control_service__descriptor;
}

/* Does anybody listen there? 0 or a negative errno. */
static int try_socket(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	_close_ int fd = -1;

	if (strlen(path) >= sizeof a.sun_path)
		return -ENAMETOOLONG;
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	return connect(fd, (struct sockaddr *)&a, sizeof a) < 0 ? -errno : 0;
}

/* How a daemon is started here. */
static const char *start_command(void)
{
	return access("/run/systemd/system", F_OK) == 0 ? "systemctl start protect-daemon" : "protect-daemon &";
}

static int unreachable(struct edera_error *err, int r, const char *path)
{
	if (r == -EACCES || r == -EPERM)
		return err_set(err, r, "may not use the daemon's socket '%s': run this as root, or as a member of the socket's group", path);
	if (r == -ECONNREFUSED)
		return err_set(err, r, "the daemon is not running: nobody answers on '%s'; start it: %s", path, start_command());
	if (r == -ENOENT)
		return err_set(err, r, "the daemon is not running: there is no socket '%s'; start it: %s", path, start_command());
	return err_errno(err, r, "cannot connect to the daemon on '%s'", path);
}

/* Strips unix:// or unix:; any other scheme is refused. */
static const char *socket_path(const char *address)
{
	if (text_starts(address, "unix://"))
		return address + 7;
	if (text_starts(address, "unix:"))
		return address + 5;
	return strstr(address, "://") ? NULL : address;
}

static int choose_socket(struct cli *cli, const char **ret, struct edera_error *err)
{
	static const char *const standard[] = { PROTECT_DATA_DIR "/daemon.socket", PROTECT_RUN_DIR "/daemon.socket" };
	const char *path;
	int r[2];

	if (cli->connection && *cli->connection) {
		path = socket_path(cli->connection);
		if (!path || !*path)
			return err_set(err, -EINVAL, "'%s' is not the address of a daemon's socket, such as unix://%s", cli->connection, standard[1]);
		r[0] = try_socket(path);
		if (r[0])
			return unreachable(err, r[0], path);
		*ret = path;
		return 0;
	}
	for (int i = 0; i < 2; i++) {
		r[i] = try_socket(standard[i]);
		if (!r[i]) {
			*ret = standard[i];
			return 0;
		}
	}
	/* The one that exists has more to tell. */
	return r[0] == -ENOENT ? unreachable(err, r[1], r[1] == -ENOENT ? standard[0] : standard[1]) : unreachable(err, r[0], standard[0]);
}

int cli_connect(struct cli *cli, struct edera_error *err)
{
	const char *path = NULL;
	int r;

	if (cli->client)
		return 0;
	r = choose_socket(cli, &path, err);
	if (r)
		return r;
	if (!cli->loop_ready) {
		r = uv_loop_init(&cli->loop);
		if (r)
			return err_set(err, r, "cannot start the event loop: %s", uv_strerror(r));
		cli->loop_ready = true;
	}
	cli->client = grpc_client_new(&cli->loop, path, "protect/" PACKAGE_VERSION, err);
	return cli->client ? 0 : err && err->code ? err->code : -EIO;
}

void cli_close(struct cli *cli)
{
	if (cli->client)
		grpc_client_free(cli->client);
	cli->client = NULL;
	if (!cli->loop_ready)
		return;
	interrupts_close(cli);
	uv_run(&cli->loop, UV_RUN_DEFAULT);
	uv_loop_close(&cli->loop);
	cli->loop_ready = false;
}

void cli_run_until(struct cli *cli, const int *flag)
{
	while (!*flag)
		uv_run(&cli->loop, UV_RUN_ONCE);
}

int cli_status_error(struct edera_error *err, enum rpc_status status, const char *method, const char *message)
{
	int code = rpc_errno_of_status(status);

	/* Libraries say of a missing method no more than that it is missing; a daemon may say what else it cannot do. */
	if (status == RPC_UNIMPLEMENTED && (!*message || strstr(message, "ethod")))
		return err_set(err, code, "this daemon does not support %s", method);
	if (status == RPC_UNAVAILABLE && text_starts(message, "the connection was lost"))
		return err_set(err, code, "the connection to the daemon was lost; is it still running?");
	if (!*message)
		return err_set(err, code, "the daemon answered %s to %s", rpc_status_name(status), method);
	return err_set(err, code, "%s", message);
}

int cli_call(struct cli *cli, enum service service, const char *method, const void *request, void *ret, struct edera_error *err)
{
	enum rpc_status status = RPC_UNKNOWN;
	ProtobufCMessage *reply = NULL;
	struct edera_error why = EDERA_ERROR_INIT;
	int r = cli_connect(cli, err);

	if (r)
		return r;
	r = grpc_client_unary(cli->client, cli_service(service), method, request, cli->timeout_ms, &reply, &status, &why);
	if (r)
		return cli_status_error(err, status, method, why.msg);
	if (ret)
		*(ProtobufCMessage **)ret = reply;
	else
		protobuf_c_message_free_unpacked(reply, NULL);
	return 0;
}

void *cli_copy_message(const void *message)
{
	const ProtobufCMessage *m = message;
	size_t n = protobuf_c_message_get_packed_size(m);
	_free_ uint8_t *bytes = need(malloc(n + 1));

	protobuf_c_message_pack(m, bytes);
	return need(protobuf_c_message_unpack(m->descriptor, NULL, n, bytes));
}

struct collection {
	struct replies *replies;
	int done;
	enum rpc_status status;
	char *message;
};

static void on_message(struct grpc_stream *s, const ProtobufCMessage *m, void *user)
{
	struct replies *r = ((struct collection *)user)->replies;

	r->v = need(reallocarray(r->v, r->n + 1, sizeof *r->v));
	r->v[r->n++] = cli_copy_message(m);
}

static void on_done(struct grpc_stream *s, enum rpc_status status, const char *message, void *user)
{
	struct collection *c = user;

	c->status = status;
	c->message = need(strdup(message));
	c->done = 1;
}

int cli_collect(struct cli *cli, enum service service, const char *method, const void *request, struct replies *ret, struct edera_error *err)
{
	static const struct grpc_stream_ops ops = { .message = on_message, .done = on_done };
	struct collection c = { .replies = ret };
	struct grpc_stream *s;
	int r = cli_connect(cli, err);

	if (r)
		return r;
	s = grpc_client_open(cli->client, cli_service(service), method, cli->timeout_ms, &ops, &c);
	if (!s)
		return err_set(err, -ENOMEM, "cannot open a call to the daemon");
	grpc_stream_send(s, request);
	grpc_stream_half_close(s);
	cli_run_until(cli, &c.done);
	r = c.status ? cli_status_error(err, c.status, method, c.message) : 0;
	free(c.message);
	return r;
}

void cli_free_replies(struct replies *r)
{
	for (size_t i = 0; i < r->n; i++)
		protobuf_c_message_free_unpacked(r->v[i], NULL);
	free(r->v);
	*r = (struct replies){ 0 };
}
