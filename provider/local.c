/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"
#include "base/cleanup.h"
#include "base/content.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLICE (1u << 20) /* bytes read before the network is looked after again */

static int ask(struct local *l, enum content_verb verb, const char *digest, uint64_t size, int *ret_fd)
{
	int r = l->socket >= 0 ? content_ask(l->socket, verb, digest, size, ret_fd) : -EPIPE;

	if (r == -EPIPE)
		l->socket = -1; /* whoever was there is gone: do without */
	return r;
}

/* Up to n bytes; 0 at the end or when it cannot be read. */
static size_t read_some(int fd, uint64_t at, void *to, size_t n)
{
	ssize_t got;

	do
		got = pread(fd, to, n, (off_t)at);
	while (got < 0 && errno == EINTR);
	return got > 0 ? (size_t)got : 0;
}

static int reject(struct local *l, const char *digest)
{
	ask(l, CONTENT_BAD, digest, 0, NULL);
	return -ENOENT;
}

int local_blob(struct local *l, const char *digest, uint64_t size, size_t max, struct buf *ret)
{
	_buf_ struct buf b = BUF_INIT;
	_close_ int fd = -1;
	char found[DIGEST_MAX];
	struct stat st;
	size_t n;

	if (ask(l, CONTENT_OPEN, digest, size, &fd))
		return -ENOENT;
	if (fstat(fd, &st) < 0 || st.st_size <= 0 || (uint64_t)st.st_size > max || (size && (uint64_t)st.st_size != size) || buf_reserve(&b, (size_t)st.st_size))
		return reject(l, digest);
	while (b.len < (size_t)st.st_size && (n = read_some(fd, b.len, b.data + b.len, (size_t)st.st_size - b.len)))
		b.len += n;
	if (digest_of(b.data, b.len, digest, found, NULL) || strcmp(found, digest))
		return reject(l, digest);
	b.data[b.len] = 0;
	*ret = b;
	b = (struct buf)BUF_INIT;
	return 0;
}

int local_open(struct local *l, const struct descriptor *d, struct local_layer *y)
{
	struct stat st;

	*y = (struct local_layer){ .fd = -1 };
	if (ask(l, CONTENT_OPEN, d->digest, d->size, &y->fd))
		return -ENOENT;
	if (fstat(y->fd, &st) == 0 && (uint64_t)st.st_size == d->size && !digest_begin(&y->digest, d->digest, NULL)) {
		(void)!posix_fadvise(y->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		return 0;
	}
	local_close(y);
	return reject(l, d->digest);
}

void local_close(struct local_layer *y)
{
	close_fd(&y->fd);
	digest_free(&y->digest);
	*y = (struct local_layer){ .fd = -1 };
}

int local_verify(struct local *l, const struct descriptor *d, struct local_layer *y)
{
	uint8_t buffer[BLOB_CHUNK_SIZE];
	char found[DIGEST_MAX];
	size_t n = 1;

	for (unsigned done = 0; done < SLICE && y->at < d->size; done += (unsigned)n, y->at += n) {
		n = read_some(y->fd, y->at, buffer, d->size - y->at < sizeof buffer ? (size_t)(d->size - y->at) : sizeof buffer);
		if (!n || digest_update(&y->digest, buffer, n))
			break;
	}
	if (n && y->at < d->size)
		return 1;
	if (y->at == d->size && !digest_end(&y->digest, found) && !strcmp(found, d->digest)) {
		y->at = 0;
		return 0;
	}
	local_close(y);
	return reject(l, d->digest);
}

int local_read(struct local_layer *y, struct fetch *f, struct edera_error *err)
{
	uint8_t buffer[BLOB_CHUNK_SIZE];
	uint64_t size = f->what->size;

	for (unsigned done = 0; done < SLICE && f->got < size;) {
		size_t n = read_some(y->fd, f->got, buffer, size - f->got < sizeof buffer ? (size_t)(size - f->got) : sizeof buffer);
		int r = n ? fetch_put(f, buffer, n, false, err) : -ENOENT;

		if (r)
			return r;
		done += (unsigned)n;
	}
	return f->got < size;
}

int local_new(struct local *l, const struct descriptor *d)
{
	int fd = -1;

	return ask(l, CONTENT_NEW, d->digest, d->size, &fd) ? -1 : fd;
}

void local_write(int *fd, uint64_t at, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (*fd >= 0 && n > 0) {
		ssize_t m = pwrite(*fd, p, n, (off_t)at);

		if (m < 0 && errno == EINTR)
			continue;
		if (m <= 0) {
			(void)!ftruncate(*fd, 0); /* others need the space */
			close(steal_fd(fd));
			return;
		}
		p += m;
		at += (uint64_t)m;
		n -= (size_t)m;
	}
}

void local_kept(struct local *l, const struct descriptor *d, int *fd)
{
	if (*fd < 0)
		return;
	close(steal_fd(fd));
	ask(l, CONTENT_KEPT, d->digest, d->size, NULL);
}
