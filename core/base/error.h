/* SPDX-License-Identifier: Apache-2.0 */
/* Filling and wrapping struct edera_error. All accept err == NULL. `code` is a negative errno; it is returned, so that
 * a failing path is one line: return err_set(err, -EINVAL, "cannot parse '%s': ...", s). */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <errno.h>
#include <edera/error.h>

int err_set(struct edera_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Appends ": " and the text of errno value -code. */
int err_errno(struct edera_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts "<context>: " in front of what is there; the code stays. Returns it. */
int err_wrap(struct edera_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
