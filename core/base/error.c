/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct edera_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	text_flatten(err->msg);
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
	text_flatten(err->msg);
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
	text_flatten(err->msg);
	return err->code ? err->code : -EIO;
}
