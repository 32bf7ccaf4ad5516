/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded stretch of a stream, addressed by offset from the stream's first byte. Grows up to RING_MAX, then it is full until
 * something is released. */
#ifndef ZONE_RING_H
#define ZONE_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_MAX (256u << 10)

struct ring {
	uint8_t *data;
	size_t cap;         /* power of two, or 0 */
	uint64_t base, end; /* offsets of the oldest byte held and behind the newest; end - base <= cap */
};

/* Room for new bytes in one piece: at least 1 and at most `want`, or 0 when the ring is full (or there is no memory). */
size_t ring_room(struct ring *, size_t want, uint8_t **ret);
void ring_commit(struct ring *, size_t n); /* n bytes were put there */
/* Copies up to max bytes from `offset` on, which must lie in [base, end]. */
size_t ring_copy(const struct ring *, uint64_t offset, uint8_t *dst, size_t max);
void ring_release(struct ring *, uint64_t offset); /* everything below it; an offset outside is taken to the nearest */
void ring_free(struct ring *);

#endif
