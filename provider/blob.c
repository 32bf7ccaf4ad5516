/* SPDX-License-Identifier: Apache-2.0 */
#include "blob.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIRST_PIECE 16 /* enough to tell how a blob is compressed */
#define FREE_MAX 32    /* chunks kept for reuse */
#define WINDOW 0.1     /* seconds over which waiting is judged */
#define WAITING 0.3    /* part of it that counts as starving */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void blob_pool_init(struct blob_pool *p, int spool_fd, uint64_t spool_max)
{
	*p = (struct blob_pool){ .lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .drained = PTHREAD_COND_INITIALIZER,
				 .spool_fd = spool_fd, .spool_max = spool_max };
}

static void free_chunk(struct chunk *c)
{
	free(c->data);
	free(c);
}

void blob_pool_free(struct blob_pool *p)
{
	while (p->free) {
		struct chunk *c = p->free;

		p->free = c->next;
		free_chunk(c);
	}
	if (p->spool_fd >= 0)
		(void)!ftruncate(p->spool_fd, 0);
}

void blob_pool_abort(struct blob_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->aborted = true;
	pthread_cond_broadcast(&p->filled);
	pthread_cond_broadcast(&p->drained);
	pthread_mutex_unlock(&p->lock);
}

void blob_init(struct blob *b, struct blob_pool *p, size_t limit) { *b = (struct blob){ .pool = p, .limit = limit }; }

void blob_free(struct blob *b)
{
	while (b->first) {
		struct chunk *c = b->first;

		b->first = c->next;
		free_chunk(c);
	}
	if (b->taken)
		free_chunk(b->taken);
	b->taken = NULL;
}

static struct chunk *new_chunk(struct blob_pool *p)
{
	struct chunk *c = p->free;

	if (c) {
		p->free = c->next;
		p->n_free--;
	} else {
		c = calloc(1, sizeof *c);
		if (!c)
			return NULL;
	}
	if (!c->data)
		c->data = malloc(BLOB_CHUNK_SIZE);
	if (!c->data) {
		free(c);
		return NULL;
	}
	c->next = NULL;
	c->len = c->at = 0;
	return c;
}

static void recycle(struct blob_pool *p, struct chunk *c)
{
	if (p->n_free == FREE_MAX) {
		free_chunk(c);
		return;
	}
	p->n_free++;
	c->next = p->free;
	p->free = c;
}

static int full_write(int fd, const uint8_t *data, size_t n, uint64_t offset)
{
	while (n > 0) {
		ssize_t m = pwrite(fd, data, n, (off_t)offset);

		if (m < 0 && errno == EINTR)
			continue;
		if (m < 0)
			return -errno;
		data += m;
		offset += (uint64_t)m;
		n -= (size_t)m;
	}
	return 0;
}

/* The last chunk, which is full, leaves memory. */
static int spool_last(struct blob *b, struct edera_error *err)
{
	struct blob_pool *p = b->pool;
	struct chunk *c = b->last;
	int r;

	r = full_write(p->spool_fd, c->data, c->len, p->spool_end);
	if (r)
		return err_errno(err, r, "cannot write the spool file");
	c->offset = p->spool_end;
	p->spool_end += c->len;
	b->in_memory -= BLOB_CHUNK_SIZE;
	/* Its memory serves another chunk. */
	struct chunk *spare = calloc(1, sizeof *spare);

	if (spare) {
		spare->data = c->data;
		recycle(p, spare);
	} else {
		free(c->data);
	}
	c->data = NULL;
	return 0;
}

static bool may_spool(const struct blob *b) { return b->pool->spool_fd >= 0 && b->pool->spool_end < b->pool->spool_max && !b->current; }

static int put_locked(struct blob *b, const uint8_t *data, size_t n, bool spool, struct edera_error *err)
{
	spool = spool && may_spool(b);
	if (b->pool->aborted)
		return -ECANCELED;
	if (b->in_memory >= b->limit && !spool) {
		b->full = true;
		return -EAGAIN;
	}
	while (n > 0) {
		struct chunk *c = b->last;
		size_t m;

		if (!c || !c->data || c->len == BLOB_CHUNK_SIZE) {
			int r = c && c->data && b->in_memory >= b->limit && spool ? spool_last(b, err) : 0;

			if (r)
				return r;
			c = new_chunk(b->pool);
			if (!c)
				return err_errno(err, -ENOMEM, "cannot keep a piece of a layer");
			if (b->last)
				b->last->next = c;
			else
				b->first = c;
			b->last = c;
			b->in_memory += BLOB_CHUNK_SIZE;
		}
		m = n < BLOB_CHUNK_SIZE - c->len ? n : BLOB_CHUNK_SIZE - c->len;
		memcpy(c->data + c->len, data, m);
		c->len += m;
		data += m;
		n -= m;
	}
	pthread_cond_signal(&b->pool->filled);
	return 0;
}

int blob_put(struct blob *b, const void *data, size_t n, bool spool, struct edera_error *err)
{
	int r;

	pthread_mutex_lock(&b->pool->lock);
	r = put_locked(b, data, n, spool, err);
	pthread_mutex_unlock(&b->pool->lock);
	return r;
}

int blob_put_wait(struct blob *b, const void *data, size_t n, struct edera_error *err)
{
	int r;

	pthread_mutex_lock(&b->pool->lock);
	while ((r = put_locked(b, data, n, false, err)) == -EAGAIN)
		pthread_cond_wait(&b->pool->drained, &b->pool->lock);
	pthread_mutex_unlock(&b->pool->lock);
	return r;
}

void blob_end(struct blob *b)
{
	pthread_mutex_lock(&b->pool->lock);
	b->ended = true;
	pthread_cond_signal(&b->pool->filled);
	pthread_mutex_unlock(&b->pool->lock);
}

bool blob_has_room(struct blob *b)
{
	bool room;

	pthread_mutex_lock(&b->pool->lock);
	room = b->in_memory <= b->limit / 2;
	if (room)
		b->full = false;
	pthread_mutex_unlock(&b->pool->lock);
	return room;
}

bool blob_starving(struct blob_pool *p)
{
	double t = now(), waited;
	bool starving;

	pthread_mutex_lock(&p->lock);
	waited = p->waited + (p->wait_began > 0 ? t - p->wait_began : 0);
	if (t - p->window_began >= WINDOW) {
		p->starving = p->window_began > 0 && waited - p->window_waited > WAITING * (t - p->window_began);
		p->window_began = t;
		p->window_waited = waited;
	}
	starving = p->starving;
	pthread_mutex_unlock(&p->lock);
	return starving;
}

static bool ready(const struct blob *b)
{
	return b->first && (b->first->len >= FIRST_PIECE || b->first->next || b->ended);
}

/* Reads a chunk back and gives its space in the file up. */
static int unspool(struct blob_pool *p, struct chunk *c, struct edera_error *err)
{
	struct chunk *spare;
	size_t got = 0;

	pthread_mutex_lock(&p->lock);
	spare = new_chunk(p);
	pthread_mutex_unlock(&p->lock);
	if (spare) {
		c->data = spare->data;
		free(spare);
	}
	if (!c->data)
		return err_errno(err, -ENOMEM, "cannot read the spool file");
	while (got < c->len) {
		ssize_t n = pread(p->spool_fd, c->data + got, c->len - got, (off_t)(c->offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_errno(err, n < 0 ? -errno : -EIO, "cannot read the spool file");
		got += (size_t)n;
	}
	(void)!fallocate(p->spool_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)c->offset, (off_t)c->len);
	return 0;
}

int blob_take(struct blob *b, const uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	struct blob_pool *p = b->pool;
	bool wake = false;
	struct chunk *c;

	pthread_mutex_lock(&p->lock);
	b->current = true;
	if (b->taken) {
		recycle(p, b->taken);
		b->taken = NULL;
		b->in_memory -= BLOB_CHUNK_SIZE;
		wake = b->full && b->in_memory <= b->limit / 2;
		pthread_cond_signal(&p->drained);
	}
	while (!ready(b) && !b->ended && !p->aborted) {
		p->wait_began = now();
		pthread_cond_wait(&p->filled, &p->lock);
		p->waited += now() - p->wait_began;
		p->wait_began = 0;
	}
	c = b->first;
	if (p->aborted || !c) {
		pthread_mutex_unlock(&p->lock);
		return p->aborted ? -ECANCELED : 0;
	}
	b->first = c->next;
	if (!b->first)
		b->last = NULL;
	if (!c->data)
		b->in_memory += BLOB_CHUNK_SIZE;
	b->taken = c;
	pthread_mutex_unlock(&p->lock);
	if (wake && p->wake)
		p->wake(p->user);
	if (!c->data) {
		int r = unspool(p, c, err);

		if (r)
			return r;
	}
	*ret = c->data;
	*ret_len = c->len;
	return 1;
}
