/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

#include <stdlib.h>

int ring_init(struct ring *r, struct edera_error *err)
{
	*r = (struct ring){ .lock = PTHREAD_MUTEX_INITIALIZER, .produced = PTHREAD_COND_INITIALIZER, .consumed = PTHREAD_COND_INITIALIZER };
	for (int i = 0; i < RING_SLOTS; i++) {
		r->slots[i].data = malloc(RING_SLOT_SIZE);
		if (!r->slots[i].data)
			return err_errno(err, -ENOMEM, "cannot make buffers");
	}
	return 0;
}

void ring_free(struct ring *r)
{
	for (int i = 0; i < RING_SLOTS; i++)
		free(r->slots[i].data);
}

void ring_abort(struct ring *r)
{
	pthread_mutex_lock(&r->lock);
	r->aborted = true;
	pthread_cond_broadcast(&r->produced);
	pthread_cond_broadcast(&r->consumed);
	pthread_mutex_unlock(&r->lock);
}

static uint64_t slowest(const struct ring *r) { return r->tails[0] < r->tails[1] ? r->tails[0] : r->tails[1]; }

int ring_reserve(struct ring *r, struct slot **ret)
{
	bool aborted;

	pthread_mutex_lock(&r->lock);
	while (r->head - slowest(r) == RING_SLOTS && !r->aborted)
		pthread_cond_wait(&r->consumed, &r->lock);
	aborted = r->aborted;
	pthread_mutex_unlock(&r->lock);
	*ret = &r->slots[r->head % RING_SLOTS];
	(*ret)->len = 0;
	(*ret)->end = false;
	return aborted ? -ECANCELED : 0;
}

void ring_publish(struct ring *r)
{
	pthread_mutex_lock(&r->lock);
	r->head++;
	pthread_cond_broadcast(&r->produced);
	pthread_mutex_unlock(&r->lock);
}

void ring_close(struct ring *r)
{
	pthread_mutex_lock(&r->lock);
	r->closed = true;
	pthread_cond_broadcast(&r->produced);
	pthread_mutex_unlock(&r->lock);
}

int ring_next(struct ring *r, enum ring_reader who, struct slot **ret)
{
	int state;

	pthread_mutex_lock(&r->lock);
	while (r->tails[who] == r->head && !r->closed && !r->aborted)
		pthread_cond_wait(&r->produced, &r->lock);
	state = r->aborted ? -ECANCELED : r->tails[who] != r->head;
	pthread_mutex_unlock(&r->lock);
	*ret = &r->slots[r->tails[who] % RING_SLOTS];
	return state;
}

void ring_release(struct ring *r, enum ring_reader who)
{
	pthread_mutex_lock(&r->lock);
	r->tails[who]++;
	pthread_cond_signal(&r->consumed);
	pthread_mutex_unlock(&r->lock);
}
