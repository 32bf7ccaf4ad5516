/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int buf_reserve(struct buf *b, size_t more)
{
	size_t want, cap = b->cap ? b->cap : 128;
	uint8_t *p;

	if (b->failed)
		return -ENOMEM;
	if (__builtin_add_overflow(b->len, more, &want) || __builtin_add_overflow(want, (size_t)1, &want))
		goto fail;
	if (want <= b->cap)
		return 0;
	while (cap < want)
		if (__builtin_mul_overflow(cap, (size_t)2, &cap))
			goto fail;
	p = realloc(b->data, cap);
	if (!p)
		goto fail;
	b->data = p;
	b->cap = cap;
	b->data[b->len] = 0;
	return 0;
fail:
	b->failed = true;
	return -ENOMEM;
}

void buf_append(struct buf *b, const void *data, size_t n)
{
	if (buf_reserve(b, n))
		return;
	if (n)
		memcpy(b->data + b->len, data, n);
	b->len += n;
	b->data[b->len] = 0;
}

void buf_puts(struct buf *b, const char *s) { buf_append(b, s, strlen(s)); }

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		b->failed = true;
	else if (!buf_reserve(b, (size_t)n)) {
		vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

void buf_consume(struct buf *b, size_t n)
{
	if (n >= b->len) {
		buf_clear(b);
		return;
	}
	memmove(b->data, b->data + n, b->len - n + 1);
	b->len -= n;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = 0;
}

void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

char *buf_steal(struct buf *b)
{
	char *p;

	if (buf_reserve(b, 0)) {
		buf_free(b);
		return NULL;
	}
	p = (char *)b->data;
	*b = (struct buf)BUF_INIT;
	return p;
}
