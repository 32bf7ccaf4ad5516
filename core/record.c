/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Each file begins with the absolute position of its first chunk and where each stream stood then (u64 each). */
#define FILE_HEAD (8 * (1 + RECORD_STREAMS))
#define CHUNK_HEAD 13

struct part {
	int fd;         /* -1: not there */
	uint64_t base;  /* position of its first chunk */
	uint64_t bytes; /* of chunks */
};

struct record {
	char path[PATH_CAP], old_path[PATH_CAP];
	struct part now, old;
	uint64_t stream_end[RECORD_STREAMS];
};

struct chunk { uint32_t len; uint64_t offset; uint8_t stream; };

static int read_head(const struct part *p, uint64_t at, struct chunk *c)
{
	uint8_t h[CHUNK_HEAD];
	uint32_t len;
	uint64_t off;

	if (pread(p->fd, h, sizeof h, (off_t)(FILE_HEAD + at)) != (ssize_t)sizeof h)
		return -EIO;
	memcpy(&len, h, 4);
	memcpy(&off, h + 4, 8);
	*c = (struct chunk){ .len = le32toh(len), .offset = le64toh(off), .stream = h[12] };
	return c->len == 0 || c->len > RECORD_CHUNK || c->stream >= RECORD_STREAMS ? -EIO : 0;
}

/* Walks the chunks of a file that an earlier daemon left; what is torn at its end is cut off. */
static int scan(struct record *r, struct part *p)
{
	uint64_t head[1 + RECORD_STREAMS];
	struct stat st;
	struct chunk c;

	if (fstat(p->fd, &st) < 0 || pread(p->fd, head, FILE_HEAD, 0) != FILE_HEAD)
		return -EIO;
	p->base = le64toh(head[0]);
	p->bytes = 0;
	for (int i = 0; i < RECORD_STREAMS; i++)
		r->stream_end[i] = le64toh(head[1 + i]);
	while (read_head(p, p->bytes, &c) == 0 && FILE_HEAD + p->bytes + CHUNK_HEAD + c.len <= (uint64_t)st.st_size) {
		p->bytes += CHUNK_HEAD + c.len;
		r->stream_end[c.stream] = c.offset + c.len;
	}
	return ftruncate(p->fd, (off_t)(FILE_HEAD + p->bytes)) < 0 ? -errno : 0;
}

static int start_file(struct record *r, uint64_t base, struct edera_error *err)
{
	uint64_t head[1 + RECORD_STREAMS] = { htole64(base) };
	int fd = open(r->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	for (int i = 0; i < RECORD_STREAMS; i++)
		head[1 + i] = htole64(r->stream_end[i]);
	if (fd < 0 || pwrite(fd, head, FILE_HEAD, 0) != FILE_HEAD) {
		int code = errno ? -errno : -EIO;

		if (fd >= 0)
			close(fd);
		return err_errno(err, code, "cannot start the output record '%s'", r->path);
	}
	r->now = (struct part){ .fd = fd, .base = base };
	return 0;
}

struct record *record_open(const char *path, struct edera_error *err)
{
	struct record *r = calloc(1, sizeof *r);

	if (!r) {
		err_errno(err, -ENOMEM, "cannot open the output record '%s'", path);
		return NULL;
	}
	r->now.fd = r->old.fd = -1;
	if (path_format(r->path, err, "%s", path) || path_format(r->old_path, err, "%s.old", path))
		goto fail;
	r->old.fd = open(r->old_path, O_RDWR | O_CLOEXEC);
	if (r->old.fd >= 0 && scan(r, &r->old) < 0) {
		close(r->old.fd);
		r->old.fd = -1;
	}
	r->now.fd = open(r->path, O_RDWR | O_CLOEXEC);
	if (r->now.fd >= 0 && scan(r, &r->now) == 0)
		return r;
	if (r->now.fd >= 0)
		close(r->now.fd);
	if (start_file(r, r->old.fd >= 0 ? r->old.base + r->old.bytes : 0, err))
		goto fail;
	return r;
fail:
	record_close(r);
	return NULL;
}

void record_close(struct record *r)
{
	if (!r)
		return;
	if (r->now.fd >= 0)
		close(r->now.fd);
	if (r->old.fd >= 0)
		close(r->old.fd);
	free(r);
}

void record_remove(const char *path)
{
	char old[PATH_CAP];

	unlink(path);
	if (path_format(old, NULL, "%s.old", path) == 0)
		unlink(old);
}

static int turn(struct record *r, struct edera_error *err)
{
	struct part was = r->now;

	if (rename(r->path, r->old_path) < 0)
		return err_errno(err, -errno, "cannot turn the output record '%s'", r->path);
	if (start_file(r, was.base + was.bytes, err)) {
		r->now = was;
		rename(r->old_path, r->path);
		return -EIO;
	}
	if (r->old.fd >= 0)
		close(r->old.fd);
	r->old = was;
	return 0;
}

static int append_chunk(struct record *r, int stream, uint64_t offset, const uint8_t *data, uint32_t len, struct edera_error *err)
{
	uint32_t le_len = htole32(len);
	uint64_t le_off = htole64(offset);
	uint8_t h[CHUNK_HEAD];
	struct iovec iov[2] = { { h, sizeof h }, { (void *)data, len } };
	off_t at = (off_t)(FILE_HEAD + r->now.bytes);
	ssize_t n;

	memcpy(h, &le_len, 4);
	memcpy(h + 4, &le_off, 8);
	h[12] = (uint8_t)stream;
	n = pwritev(r->now.fd, iov, 2, at);
	if (n != (ssize_t)(CHUNK_HEAD + len)) {
		int code = n < 0 ? -errno : -ENOSPC;

		if (ftruncate(r->now.fd, at) < 0)
			code = -errno;
		return err_errno(err, code, "cannot write the output record '%s'", r->path);
	}
	r->now.bytes += CHUNK_HEAD + len;
	r->stream_end[stream] = offset + len;
	return 0;
}

int record_append(struct record *r, int stream, uint64_t offset, const void *data, size_t len, struct edera_error *err)
{
	const uint8_t *p = data;

	while (len > 0) {
		uint32_t n = len < RECORD_CHUNK ? (uint32_t)len : RECORD_CHUNK;
		int e = r->now.bytes >= RECORD_KEEP ? turn(r, err) : 0;

		if (!e)
			e = append_chunk(r, stream, offset, p, n, err);
		if (e)
			return e;
		p += n;
		offset += n;
		len -= n;
	}
	return 0;
}

uint64_t record_end(const struct record *r) { return r->now.base + r->now.bytes; }

uint64_t record_stream_end(const struct record *r, int stream) { return r->stream_end[stream]; }

int record_read(const struct record *r, uint64_t *pos, int *ret_stream, struct buf *out, struct edera_error *err)
{
	uint64_t first = r->old.fd >= 0 ? r->old.base : r->now.base;
	const struct part *p;
	struct chunk c;
	uint64_t at = *pos < first ? first : *pos;

	if (at >= record_end(r))
		return 0;
	p = at < r->now.base ? &r->old : &r->now;
	if (read_head(p, at - p->base, &c) < 0 || buf_reserve(out, c.len) ||
	    pread(p->fd, out->data + out->len, c.len, (off_t)(FILE_HEAD + at - p->base + CHUNK_HEAD)) != (ssize_t)c.len)
		return err_set(err, -EIO, "cannot read the output record '%s' at %llu", r->path, (unsigned long long)at);
	out->len += c.len;
	out->data[out->len] = 0;
	*ret_stream = c.stream;
	*pos = at + CHUNK_HEAD + c.len;
	return 1;
}
