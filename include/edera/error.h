/* SPDX-License-Identifier: Apache-2.0 */
/* The error object that crosses the plugin ABI.
 *
 * It lives on the caller's stack, holds no allocation, and is filled by whoever fails: a negative errno and one
 * sentence that says what was attempted, on what, and why it failed. Functions that take one return the same
 * negative errno; on success they return 0 (or a count) and leave it alone. NULL is accepted everywhere. */
#ifndef EDERA_ERROR_H
#define EDERA_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct edera_error {
	uint32_t size;  /* sizeof(struct edera_error) of whoever owns it */
	int32_t code;   /* negative errno; 0 = no error */
	char msg[504];  /* NUL-terminated UTF-8, one sentence, no newline */
};

#define EDERA_ERROR_INIT { sizeof(struct edera_error), 0, { 0 } }

#ifdef __cplusplus
}
#endif
#endif
