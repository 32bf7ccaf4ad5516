/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

#include <stdlib.h>
#include <string.h>

#define RING_MIN 4096u

static int grow(struct ring *r)
{
	size_t cap = r->cap ? r->cap * 2 : RING_MIN, held = (size_t)(r->end - r->base);
	uint8_t *data = malloc(cap);

	if (!data)
		return -1;
	for (size_t i = 0; i < held;) {
		size_t from = (size_t)(r->base + i) & (r->cap - 1), to = (size_t)(r->base + i) & (cap - 1);
		size_t n = held - i;

		n = n < r->cap - from ? n : r->cap - from;
		n = n < cap - to ? n : cap - to;
		memcpy(data + to, r->data + from, n);
		i += n;
	}
	free(r->data);
	r->data = data;
	r->cap = cap;
	return 0;
}

size_t ring_room(struct ring *r, size_t want, uint8_t **ret)
{
	size_t held = (size_t)(r->end - r->base), at, n;

	while (r->cap - held < want && r->cap < RING_MAX)
		if (grow(r) < 0)
			break;
	if (r->cap == held)
		return 0;
	at = (size_t)r->end & (r->cap - 1);
	n = r->cap - held;
	n = n < r->cap - at ? n : r->cap - at;
	*ret = r->data + at;
	return n < want ? n : want;
}

void ring_commit(struct ring *r, size_t n)
{
	r->end += n;
}

size_t ring_copy(const struct ring *r, uint64_t offset, uint8_t *dst, size_t max)
{
	size_t n = (size_t)(r->end - offset), from, first;

	n = n < max ? n : max;
	if (!n)
		return 0;
	from = (size_t)offset & (r->cap - 1);
	first = n < r->cap - from ? n : r->cap - from;
	memcpy(dst, r->data + from, first);
	memcpy(dst + first, r->data, n - first);
	return n;
}

void ring_release(struct ring *r, uint64_t offset)
{
	if (offset > r->end)
		offset = r->end;
	if (offset > r->base)
		r->base = offset;
}

void ring_free(struct ring *r)
{
	free(r->data);
	*r = (struct ring){ 0 };
}
