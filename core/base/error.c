/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message stays one line of printable text, whatever bytes it quotes. */
static void flatten(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = ' ';
}

int err_set(struct edera_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	flatten(err->msg);
	return code;
}

int err_errno(struct edera_error *err, int code, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof err->msg - n, ": %s", strerror(-code));
	flatten(err->msg);
	return code;
}

int err_wrap(struct edera_error *err, const char *fmt, ...)
{
	char old[sizeof err->msg];
	va_list ap;
	size_t n;

	if (!err)
		return -EIO;
	memcpy(old, err->msg, sizeof old);
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof err->msg - n, ": %s", old);
	flatten(err->msg);
	return err->code ? err->code : -EIO;
}
