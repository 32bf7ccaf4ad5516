/* SPDX-License-Identifier: Apache-2.0 */
/* Where an image comes from. Everything a source hands on was verified against the digest it was asked for. */
#ifndef PROVIDER_SOURCE_H
#define PROVIDER_SOURCE_H

#include "base/buf.h"
#include "blob.h"
#include "manifest.h"
#include "options.h"
#include "origin.h"

enum fetch_phase { FETCH_WAITING = 1, FETCH_RUNNING, FETCH_DONE, FETCH_UNPACKING, FETCH_UNPACKED };

/* One layer being fetched. */
struct fetch {
	const struct descriptor *what;
	struct blob blob;
	struct digest digest;
	uint64_t got;            /* bytes hashed and handed on; read by the progress reporter without a lock */
	int phase;               /* how far the fetcher is: enum fetch_phase up to FETCH_DONE; read in the same way, as are the others */
	int unpack;              /* how far the packer is: 0, FETCH_UNPACKING, FETCH_UNPACKED */
	bool here;               /* it is on this machine and need not be fetched, for all that is known */
};

struct source;
struct source_ops {
	/* The manifest or index that the reference names (digest NULL), or that has this digest. */
	int (*manifest)(struct source *, const char *digest, struct buf *ret, char ret_digest[DIGEST_MAX], struct edera_error *);
	/* A small blob, whole. */
	int (*blob)(struct source *, const struct descriptor *, struct buf *ret, struct edera_error *);
	/* Fetches all of these into their blobs, in this order of urgency; returns when all are done or one has failed. On a thread
	 * of its own. */
	int (*fetch)(struct source *, struct fetch **list, uint32_t n, struct edera_error *);
	/* Any thread: fetch returns soon. */
	void (*abort)(struct source *);
	/* Tags of the repository; NULL where there are none. */
	int (*tags)(struct source *, int (*tag)(void *user, const char *tag), void *user, struct edera_error *);
	/* What the image found by `manifest` is called there: an array of references, borrowed, or NULL. May be NULL. */
	json_object *(*names)(struct source *);
	void (*free)(struct source *);
};

struct source {
	const struct source_ops *ops;
};

int source_registry_new(const struct origin *, const struct options *, struct source **ret, struct edera_error *);
int source_layout_new(const struct origin *, const struct options *, struct source **ret, struct edera_error *);
int source_new(const struct origin *, const struct options *, struct source **ret, struct edera_error *);

/* For sources: takes bytes in order. -EAGAIN: no room, nothing taken. More than the descriptor says is an error. */
int fetch_begin(struct fetch *, struct edera_error *);
void fetch_is_here(struct fetch *, bool);
int fetch_put(struct fetch *, const void *data, size_t n, bool spool, struct edera_error *);
int fetch_put_wait(struct fetch *, const void *data, size_t n, struct edera_error *);
/* All is here: size and digest are verified. */
int fetch_end(struct fetch *, struct edera_error *);

#endif
