/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming tar reader for image layers: v7, ustar, GNU and PAX, sparse files of every encoding, names and attributes
 * as bytes. It pulls its input in pieces of any size and copies no file data. Whatever it is fed, it needs bounded
 * memory and ends in an entry, the end, or an error that says what is wrong. */
#ifndef PROVIDER_TAR_H
#define PROVIDER_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum tar_type { TAR_FILE, TAR_DIR, TAR_SYMLINK, TAR_HARDLINK, TAR_CHAR, TAR_BLOCK, TAR_FIFO };

#define TAR_PATH_MAX 4095 /* bytes of a name or a link target */

/* Valid until the next tar_next. */
struct tar_entry {
	enum tar_type type;
	const char *path; /* as written, NUL-terminated */
	const char *link; /* target of a symlink or hard link */
	uint32_t mode, uid, gid;
	int64_t mtime;    /* seconds, rounded down */
	uint32_t major, minor;
	uint64_t size;    /* logical: of a sparse file with its holes */
	/* Extended attributes, one after another: uint16 length of the name, uint32 length of the value, name, value. */
	const uint8_t *xattrs;
	size_t xattrs_len;
	uint32_t xattrs_dropped; /* attributes of kinds that an image cannot carry */
};

/* Gives the next piece of input, which stays valid until the next call; *ret_len 0 at the end. */
typedef int (*tar_fill)(void *user, const uint8_t **ret, size_t *ret_len, struct edera_error *);

struct tar;
struct tar *tar_new(tar_fill, void *user);
void tar_free(struct tar *);
/* 1: *ret is filled. 0: the archive ended, and its input was read to its end. */
int tar_next(struct tar *, struct tar_entry *ret, struct edera_error *);
/* File content of the entry last returned: 1 and a piece (*ret NULL: that many zeros), 0 at its end. What is not read is skipped. */
int tar_data(struct tar *, const uint8_t **ret, uint64_t *ret_len, struct edera_error *);
/* Where in the input the content of the entry last returned begins (of one that is not sparse). */
uint64_t tar_offset(const struct tar *);
/* Its content is kept with holes left out. */
bool tar_sparse(const struct tar *);
/* How many bytes of content are still to come in the input. */
uint64_t tar_stored(const struct tar *);
/* For callers that can seek: passes over the content of the entry last returned as far as it has not been given to the reader.
 * `at` is where in the file the next piece would come from; returns where it shall come from now. */
uint64_t tar_seek_over(struct tar *, uint64_t at);
/* Types that were skipped because nothing is known about them. */
uint32_t tar_unknown_types(const struct tar *);

#endif
