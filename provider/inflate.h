/* SPDX-License-Identifier: Apache-2.0 */
/* Decompression of a layer as a stream. How it is compressed, its first bytes say: gzip (any number of members), zstd (any
 * number of frames), bzip2, xz, or not at all. Media types lie. */
#ifndef PROVIDER_INFLATE_H
#define PROVIDER_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

#define INFLATE_WINDOW_LOG_MAX 27 /* zstd: 128 MiB; layers are unpacked one at a time */

struct inflate_io {
	/* Compressed input: 1 and a piece, 0 at the end. The first piece has 16 bytes unless there are fewer in all. */
	int (*take)(void *user, const uint8_t **ret, size_t *ret_len, struct edera_error *);
	/* Room for output. */
	int (*room)(void *user, uint8_t **ret, size_t *ret_len, struct edera_error *);
	/* So many bytes of the room were filled. */
	int (*made)(void *user, size_t n, struct edera_error *);
	void *user;
};

/* By the first bytes of a file (16, if there are so many). */
bool inflate_needed(const uint8_t *start, size_t n);
int inflate_run(const struct inflate_io *, struct edera_error *);
/* -EFBIG where so much came of so little that nobody meant it: a bomb. */
int inflate_check_ratio(uint64_t made, uint64_t packed, struct edera_error *);

#endif
