/* SPDX-License-Identifier: Apache-2.0 */
#include "containerd.h"
#include "base/cleanup.h"
#include "base/content.h"
#include "base/path.h"
#include "base/text.h"
#include "rpc/grpc.h"

#include "containerd/services/images/v1/images.pb-c.h"

#include <string.h>
#include <sys/stat.h>

#define ANSWER_MS 5000 /* all namespaces together */

typedef Containerd__Services__Images__V1__GetImageRequest Request;
typedef Containerd__Services__Images__V1__GetImageResponse Response;

int containerd_blob_open(const struct conf *c, const char *digest, uint64_t size, int *ret_fd)
{
	const char *root = conf_str(c, "oci.containerd-root");
	char dir[PATH_CAP];
	_close_ int fd = -1;
	struct stat st;

	if (!*root || path_format(dir, NULL, "%s/io.containerd.content.v1.content/blobs", root) || content_open(dir, digest, &fd) || fstat(fd, &st) < 0 ||
	    (size && (uint64_t)st.st_size != size))
		return -ENOENT;
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* Whatever listens on the socket says what it likes. */
static int take_answer(const Response *a, const char *name, char ret_digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	if (!a->image || !a->image->target || strcmp(a->image->name, name))
		return err_set(err, -EPROTO, "its answer is about something else");
	if (!text_valid_digest(a->image->target->digest))
		return err_set(err, -EPROTO, "its answer holds no digest");
	strcpy(ret_digest, a->image->target->digest);
	return 0;
}

static int ask(struct grpc_client *client, const char *space, const char *name, uint64_t until_ns, char ret_digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	Request q = CONTAINERD__SERVICES__IMAGES__V1__GET_IMAGE_REQUEST__INIT;
	uint64_t now = uv_hrtime();
	ProtobufCMessage *answer;
	int r;

	if (now >= until_ns)
		return err_set(err, -ETIMEDOUT, "it does not answer");
	q.name = (char *)name;
	grpc_client_set_header(client, "containerd-namespace", space);
	r = grpc_client_unary(client, &containerd__services__images__v1__images__descriptor, "Get", &q.base, (until_ns - now) / 1000000 + 1, &answer, NULL, err);
	if (r)
		return r;
	r = take_answer((const Response *)answer, name, ret_digest, err);
	protobuf_c_message_free_unpacked(answer, NULL);
	return r;
}

int containerd_resolve(const struct conf *c, const char *name, char ret_digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	const char *address = conf_str(c, "oci.containerd-address"), *const *spaces;
	size_t n = conf_list(c, "oci.containerd-namespaces", &spaces);
	uint64_t until = uv_hrtime() + ANSWER_MS * UINT64_C(1000000);
	struct grpc_client *client;
	uv_loop_t loop;
	int r;

	if (!*conf_str(c, "oci.containerd-root") || !*address)
		return err_set(err, -ENOENT, "containerd is switched off in [oci]");
	r = uv_loop_init(&loop);
	if (r)
		return err_set(err, r, "cannot ask containerd: %s", uv_strerror(r));
	client = grpc_client_new(&loop, address, "protect-daemon/" PACKAGE_VERSION, err);
	r = client ? err_set(err, -ENOENT, "[oci] containerd-namespaces names none") : -EINVAL;
	for (size_t i = 0; client && i < n; i++) {
		r = ask(client, spaces[i], name, until, ret_digest, err);
		if (r != -ENOENT)
			break;
	}
	grpc_client_free(client);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	if (r)
		err_wrap(err, "containerd at %s", address);
	return r;
}
