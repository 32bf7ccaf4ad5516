/* SPDX-License-Identifier: Apache-2.0 */
#include "oci_content.h"
#include "containerd.h"
#include "base/cleanup.h"
#include "base/error.h"

#include <sys/socket.h>

/* Where a blob may be, in the order in which it is looked for. */
static int find(void *user, const char *digest, uint64_t size, int *ret_fd)
{
	struct oci_content *c = user;
	int r = c->asked->blob_open ? c->asked->blob_open(c->asked->user, digest, size, ret_fd) : -ENOENT;

	return r ? containerd_blob_open(c->conf, digest, size, ret_fd) : 0;
}

static int create(void *user, const char *digest, uint64_t size, int *ret_fd)
{
	const struct edera_oci_run *asked = ((struct oci_content *)user)->asked;

	return asked->blob_new ? asked->blob_new(asked->user, digest, size, ret_fd) : -ENOENT;
}

static void kept(void *user, const char *digest)
{
	const struct edera_oci_run *asked = ((struct oci_content *)user)->asked;

	if (asked->blob_kept)
		asked->blob_kept(asked->user, digest);
}

static void bad(void *user, const char *digest)
{
	const struct edera_oci_run *asked = ((struct oci_content *)user)->asked;

	if (asked->blob_bad)
		asked->blob_bad(asked->user, digest);
}

static const struct content_ops ops = { .open = find, .create = create, .kept = kept, .bad = bad };

int oci_content_open(struct oci_content *c, const struct conf *conf, const struct edera_oci_run *asked, int *ret_fd, struct edera_error *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, -errno, "cannot start protect-oci-provider");
	*c = (struct oci_content){ .server = { .fd = pair[0], .ops = &ops, .user = c }, .conf = conf, .asked = asked };
	*ret_fd = pair[1];
	return 0;
}

int oci_content_serve(struct oci_content *c) { return content_serve(&c->server); }

void oci_content_close(struct oci_content *c)
{
	close_fd(&c->server.fd);
	c->server.fd = -1;
}
