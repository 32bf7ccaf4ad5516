/* SPDX-License-Identifier: Apache-2.0 */
/* An array whose elements never move: address space is reserved for its largest size, memory is taken as it grows. */
#ifndef PROVIDER_TABLE_H
#define PROVIDER_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct table {
	uint8_t *base;
	size_t size;      /* of an element */
	uint32_t count, max;
};

int table_init(struct table *, size_t element_size, uint32_t max, struct edera_error *);
void table_free(struct table *);
/* n zeroed elements in a row; -ENOSPC when the table is full. */
int table_add(struct table *, uint32_t n, uint32_t *ret_index);

static inline void *table_at(const struct table *t, uint32_t i) { return t->base + (size_t)i * t->size; }

#endif
