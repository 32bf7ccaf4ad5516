/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one blob on their way from a source to the unpacker.
 *
 * One thread puts (the fetcher), one takes (the unpacker), one blob after another. What waits is kept in bounded memory; a
 * blob whose turn has not come may go to one unlinked spool file when that keeps the network busy. */
#ifndef PROVIDER_BLOB_H
#define PROVIDER_BLOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

#define BLOB_CHUNK_SIZE (128u << 10)

struct chunk {
	struct chunk *next;
	uint8_t *data;     /* NULL while it is in the spool file */
	uint64_t offset;   /* there */
	size_t len, at;
};

struct blob_pool {
	pthread_mutex_t lock;
	pthread_cond_t filled, drained;
	struct chunk *free;
	unsigned n_free;
	int spool_fd;      /* file, or -1 */
	uint64_t spool_end, spool_max;
	/* How much of the time the taker waited for bytes, window by window. */
	double waited, wait_began, window_began, window_waited;
	bool starving;
	bool aborted;
	void (*wake)(void *user); /* called after memory was freed for a blob that had no room, without the lock */
	void *user;
};

struct blob {
	struct blob_pool *pool;
	struct chunk *first, *last;
	size_t in_memory, limit;
	bool full;         /* the fetcher was told to wait */
	bool ended;
	bool current;      /* the one being taken */
	struct chunk *taken;
};

void blob_pool_init(struct blob_pool *, int spool_fd, uint64_t spool_max);
void blob_pool_free(struct blob_pool *);
void blob_pool_abort(struct blob_pool *); /* everybody waiting goes home with -ECANCELED */

void blob_init(struct blob *, struct blob_pool *, size_t limit);
void blob_free(struct blob *);

/* 0: taken whole. -EAGAIN: no room, nothing taken. `spool`: the spool file may be used. */
int blob_put(struct blob *, const void *data, size_t n, bool spool, struct edera_error *);
/* The same, waiting for room. */
int blob_put_wait(struct blob *, const void *data, size_t n, struct edera_error *);
void blob_end(struct blob *);
bool blob_has_room(struct blob *);
/* The taker spends its time waiting: more bytes in flight would help. */
bool blob_starving(struct blob_pool *);

/* 1: a piece, valid until the next call (the first has at least 16 bytes unless the blob is shorter). 0: the end. */
int blob_take(struct blob *, const uint8_t **ret, size_t *ret_len, struct edera_error *);

#endif
