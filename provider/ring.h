/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacked layer bytes between the thread that makes them and the two that read each of them: the one that hashes and
 * the one that packs. A fixed number of buffers goes round. */
#ifndef PROVIDER_RING_H
#define PROVIDER_RING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

#define RING_SLOTS 12
#define RING_SLOT_SIZE (256u << 10)

enum ring_reader { RING_PACK, RING_HASH, RING_READERS };

struct slot {
	uint8_t *data;
	size_t len;
	uint32_t layer;
	bool end;        /* of the layer: no data */
};

struct ring {
	pthread_mutex_t lock;
	pthread_cond_t produced, consumed;
	uint64_t head, tails[RING_READERS]; /* slots made; slots done with */
	bool closed, aborted;
	struct slot slots[RING_SLOTS];
};

int ring_init(struct ring *, struct edera_error *);
void ring_free(struct ring *);
void ring_abort(struct ring *);
/* Writer: a free slot (-ECANCELED after an abort), then its publication; close after the last. */
int ring_reserve(struct ring *, struct slot **ret);
void ring_publish(struct ring *);
void ring_close(struct ring *);
/* Reader: 1 and the next slot, 0 after the last one; release before the next call. */
int ring_next(struct ring *, enum ring_reader, struct slot **ret);
void ring_release(struct ring *, enum ring_reader);

#endif
