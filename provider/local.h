/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs that need not be fetched, because whoever started us has them, and layers that shall stay there for the next image.
 *
 * What is given is read twice: it is hashed first, and only a blob that is right is handed on (hashed again on the way, as everything is).
 * So a wrong one costs no more than that, and is fetched as if it had not been there; handing it on at once would save the first pass,
 * two gigabytes a second, but a pull would have to be undone and begun again when the digest turns out wrong at the end. */
#ifndef PROVIDER_LOCAL_H
#define PROVIDER_LOCAL_H

#include "source.h"

struct local {
	int socket; /* see base/content.h; -1: nobody to ask */
};

/* One layer that is read here. */
struct local_layer {
	int fd;     /* -1: none */
	uint64_t at;
	struct digest digest;
};

/* A manifest or config, whole and verified. -ENOENT: fetch it. size 0: not known. */
int local_blob(struct local *, const char *digest, uint64_t size, size_t max, struct buf *ret);

/* -ENOENT: fetch it. */
int local_open(struct local *, const struct descriptor *, struct local_layer *);
/* A slice of the first pass. 1: call again; 0: it is right; -ENOENT: it is not, fetch it. */
int local_verify(struct local *, const struct descriptor *, struct local_layer *);
/* A slice of the second. 1: call again; 0: all is handed on; -EAGAIN: no room; -ENOENT: it cannot be read on, fetch what is missing. */
int local_read(struct local_layer *, struct fetch *, struct edera_error *);
void local_close(struct local_layer *);

/* A file to which a layer shall be written while it is fetched, or -1. */
int local_new(struct local *, const struct descriptor *);
/* What cannot be written is not kept; that is no reason to fail. *fd becomes -1 then. */
void local_write(int *fd, uint64_t at, const void *data, size_t n);
/* The layer is complete and verified. */
void local_kept(struct local *, const struct descriptor *, int *fd);

#endif
