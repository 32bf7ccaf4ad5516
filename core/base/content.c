/* SPDX-License-Identifier: Apache-2.0 */
#include "base/content.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define ANSWER_MS 30000

/* Room for one descriptor in a message. */
union passing {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(int))];
};

static int answer(int socket, int32_t status, int fd)
{
	struct iovec v = { &status, sizeof status };
	union passing pass = { 0 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		m.msg_control = &pass;
		m.msg_controllen = sizeof pass.space;
		pass.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&pass.head), &fd, sizeof fd);
	}
	do
		n = sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == sizeof status; /* one that asks and does not read the answers is not waited for */
}

static bool sound(const struct content_request *q)
{
	return q->verb >= CONTENT_OPEN && q->verb <= CONTENT_BAD && q->zero == 0 && memchr(q->digest, 0, sizeof q->digest) && text_valid_digest(q->digest);
}

/* A file, and no more rights to it than the verb is about. */
static bool as_promised(int fd, enum content_verb verb)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	return flags >= 0 && (flags & O_ACCMODE) == (verb == CONTENT_OPEN ? O_RDONLY : O_WRONLY) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int serve(struct content *c, const struct content_request *q)
{
	_close_ int fd = -1;
	int r = 0;

	switch ((enum content_verb)q->verb) {
	case CONTENT_OPEN:
		r = c->ops->open(c->user, q->digest, q->size, &fd);
		break;
	case CONTENT_NEW:
		r = c->ops->create ? c->ops->create(c->user, q->digest, q->size, &fd) : -ENOENT;
		break;
	case CONTENT_KEPT:
		if (c->ops->kept)
			c->ops->kept(c->user, q->digest);
		return answer(c->fd, 0, -1);
	case CONTENT_BAD:
		if (c->ops->bad)
			c->ops->bad(c->user, q->digest);
		return answer(c->fd, 0, -1);
	}
	if (!r && !as_promised(fd, q->verb))
		r = -ENOENT;
	return answer(c->fd, r, r ? -1 : fd);
}

int content_serve(struct content *c)
{
	struct content_request q;
	struct iovec v = { &q, sizeof q };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 }; /* no room for descriptors: the kernel closes those that are sent along */
	ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n != sizeof q || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || !sound(&q) || c->served++ >= CONTENT_REQUESTS_MAX)
		return 0;
	return serve(c, &q);
}

static int receive(int socket, int *ret_fd)
{
	int32_t status;
	struct iovec v = { &status, sizeof status };
	union passing pass = { 0 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = ret_fd ? &pass : NULL, .msg_controllen = ret_fd ? sizeof pass.space : 0 };
	struct pollfd p = { .fd = socket, .events = POLLIN };
	struct cmsghdr *c;
	_close_ int fd = -1;
	ssize_t n;
	int r;

	do
		r = poll(&p, 1, ANSWER_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return -EPIPE;
	do
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	if (n != sizeof status || status > 0 || (status == 0 && ret_fd && fd < 0))
		return -EPIPE;
	if (status == 0 && ret_fd)
		*ret_fd = steal_fd(&fd);
	return status;
}

int content_ask(int fd, enum content_verb verb, const char *digest, uint64_t size, int *ret_fd)
{
	struct content_request q = { .verb = verb, .size = size };
	ssize_t n;

	if (fd < 0 || strlen(digest) >= sizeof q.digest)
		return -EPIPE;
	strcpy(q.digest, digest);
	do
		n = send(fd, &q, sizeof q, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == sizeof q ? receive(fd, ret_fd) : -EPIPE;
}

int content_open(const char *dir, const char *digest, int *ret_fd)
{
	char path[PATH_CAP];
	_close_ int fd = -1;
	struct stat st;

	if (!text_valid_digest(digest) || path_format(path, NULL, "%s/%.6s/%s", dir, digest, digest + 7))
		return -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	*ret_fd = steal_fd(&fd);
	return 0;
}
