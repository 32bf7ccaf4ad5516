/* SPDX-License-Identifier: Apache-2.0 */
#include "upload.h"
#include "pb.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_FROM (256u << 10) /* a write is worth a worker from here on */
#define FULL_FROM (1u << 20)
#define WRITE_TIMEOUT_MS 120000

struct upload {
	struct worker_pool *pool;
	const char *dir, *limit;
	const struct upload_ops *ops;
	void *user;
	uint64_t max, size;
	struct buf fill;   /* what waits */
	bool busy, ended, freed, full;
	unsigned jobs;     /* submitted, not released */
	/* Of the worker, while busy. */
	int fd, read_fd;
	struct buf out;
	struct edera_error err;
};

struct upload *upload_new(struct worker_pool *pool, const char *dir, uint64_t max, const char *limit, const struct upload_ops *ops, void *user)
{
	struct upload *u = pb_xcalloc(1, sizeof *u);

	*u = (struct upload){ .pool = pool, .dir = dir, .limit = limit, .ops = ops, .user = user, .max = max, .fd = -1, .read_fd = -1, .err = EDERA_ERROR_INIT };
	return u;
}

static void destroy(struct upload *u)
{
	close_fd(&u->fd);
	close_fd(&u->read_fd);
	buf_free(&u->fill);
	buf_free(&u->out);
	free(u);
}

void upload_free(struct upload *u)
{
	if (!u)
		return;
	u->freed = true;
	if (!u->jobs)
		destroy(u);
}

static int open_file(struct upload *u)
{
	char path[PATH_CAP];
	int r;

	u->fd = open(u->dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (u->fd >= 0) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", u->fd);
		u->read_fd = open(path, O_RDONLY | O_CLOEXEC);
	} else if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT) { /* a file system without files that have no name */
		r = path_format(path, &u->err, "%s/.import.XXXXXX", u->dir);
		if (r)
			return r;
		u->fd = mkostemp(path, O_CLOEXEC);
		if (u->fd >= 0) {
			u->read_fd = open(path, O_RDONLY | O_CLOEXEC);
			unlink(path);
		}
	}
	return u->fd < 0 || u->read_fd < 0 ? err_errno(&u->err, -errno, "cannot keep what is sent in '%s'", u->dir) : 0;
}

static void work(void *user, const struct edera_call *call)
{
	struct upload *u = user;
	size_t done = 0;

	(void)call;
	if (u->fd < 0 && open_file(u))
		return;
	while (done < u->out.len) {
		ssize_t n = write(u->fd, u->out.data + done, u->out.len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err_errno(&u->err, -errno, "cannot keep what is sent in '%s'", u->dir);
			return;
		}
		done += (size_t)n;
	}
}

static void done(void *user, bool abandoned);

static void release(void *user)
{
	struct upload *u = user;

	u->jobs--;
	if (u->freed && !u->jobs)
		destroy(u);
}

static const struct worker_ops write_ops = { work, done, release };

/* What waits goes to a worker. */
static void flush(struct upload *u)
{
	struct buf empty = u->out;

	u->out = u->fill;
	u->fill = empty;
	u->busy = true;
	u->jobs++;
	worker_submit(u->pool, NULL, WRITE_TIMEOUT_MS, &write_ops, u);
}

static void done(void *user, bool abandoned)
{
	struct edera_error late = EDERA_ERROR_INIT;
	struct upload *u = user;

	if (u->freed)
		return;
	if (abandoned) { /* the worker still has its part, so busy stays */
		err_set(&late, -ETIMEDOUT, "cannot keep what is sent: '%s' does not answer", u->dir);
		u->ops->failed(u->user, &late);
		return;
	}
	u->busy = false;
	buf_clear(&u->out);
	if (u->err.code) {
		u->ops->failed(u->user, &u->err);
		return;
	}
	if (u->fill.len >= FLUSH_FROM || (u->ended && u->fill.len))
		flush(u);
	else if (u->ended)
		u->ops->complete(u->user, u->read_fd);
	if (u->full && !u->ended) {
		u->full = false;
		u->ops->room(u->user);
	}
}

int upload_put(struct upload *u, const void *data, size_t n, struct edera_error *err)
{
	if (n > u->max - u->size)
		return err_set(err, -EFBIG, "what is sent is larger than the %llu MiB allowed (%s)", (unsigned long long)(u->max >> 20), u->limit);
	u->size += n;
	buf_append(&u->fill, data, n);
	if (u->fill.failed)
		return err_errno(err, -ENOMEM, "cannot take what is sent");
	if (!u->busy && u->fill.len >= FLUSH_FROM)
		flush(u);
	u->full = u->fill.len >= FULL_FROM;
	return 0;
}

bool upload_full(const struct upload *u) { return u->full; }

void upload_end(struct upload *u)
{
	u->ended = true;
	if (!u->busy)
		flush(u);
}
