/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer. Appends that cannot get memory set `failed` and do nothing more, so that one check at the end
 * is enough. data is always followed by a NUL that len does not count. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data; /* NULL while empty and never written */
	size_t len, cap;
	bool failed;
};

#define BUF_INIT { NULL, 0, 0, false }
#define _buf_ __attribute__((cleanup(buf_free)))

int buf_reserve(struct buf *, size_t more); /* 0 or -ENOMEM */
void buf_append(struct buf *, const void *data, size_t n);
void buf_puts(struct buf *, const char *s);
void buf_printf(struct buf *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *, size_t n); /* drops n bytes from the front */
void buf_clear(struct buf *);             /* empties, keeps the memory */
void buf_free(struct buf *);
char *buf_steal(struct buf *);            /* NUL-terminated malloc'd bytes, or NULL if an append failed */

#endif
