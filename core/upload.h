/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a client sends, put into a file without a name by workers: the loop thread never waits for a disk, and what is in memory
 * is bounded. All of it is for the loop thread; no callback comes from within a function of this header. */
#ifndef CORE_UPLOAD_H
#define CORE_UPLOAD_H

#include "worker.h"
#include "base/error.h"

struct upload;

struct upload_ops {
	void (*room)(void *user);                                 /* after upload_full: it takes more again */
	void (*complete)(void *user, int fd);                     /* after upload_end: all is in the file; fd, opened for reading only, is borrowed */
	void (*failed)(void *user, const struct edera_error *);   /* nothing follows */
};

/* dir and limit are borrowed for as long as the upload lives; the file is made in dir, limit is named to those who exceed `max`. */
struct upload *upload_new(struct worker_pool *, const char *dir, uint64_t max, const char *limit, const struct upload_ops *, void *user);
/* At any time; NULL is accepted. The file is gone then, or as soon as a write that hangs returns. */
void upload_free(struct upload *);
/* An error ends it: nothing follows but upload_free. */
int upload_put(struct upload *, const void *data, size_t n, struct edera_error *);
bool upload_full(const struct upload *); /* the sender should stop until `room` */
void upload_end(struct upload *);

#endif
