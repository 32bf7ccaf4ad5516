/* SPDX-License-Identifier: Apache-2.0 */
/* Small text questions that several programs ask. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

bool text_valid_utf8(const void *data, size_t len); /* strict: no overlong forms, no surrogates, no NUL */
/* Makes a NUL-terminated string valid UTF-8 in place: each bad byte becomes '?'. */
void text_force_utf8(char *s);
/* Length of the UTF-8 sequence at s and its character; 0 at the end and where it is none. */
size_t text_decode(const char *s, uint32_t *ret);
/* Characters that do something to a terminal, or to how what stands around them is read. */
bool text_harmful(uint32_t character);
/* Text of unknown origin, made safe for a terminal: control characters, marks that turn the direction of writing and bytes
 * that are not UTF-8 become \n, \t, \xNN or \u{NNNN}. */
void text_escape(struct buf *, const char *s);
size_t text_width(const char *s); /* columns on a terminal, as far as the locale knows */
void text_size(struct buf *, uint64_t bytes); /* "12.3 MiB" */
/* Whatever would move a cursor, begin a line or turn writing around becomes spaces. */
void text_flatten(char *s);
bool text_valid_digest(const char *s); /* sha256:<64 lower hex> or sha512:<128 lower hex> */
/* What zones and workloads may be called: [A-Za-z0-9][A-Za-z0-9._-]{0,252} */
bool text_valid_name(const char *s);
bool text_starts(const char *s, const char *prefix);
bool text_ends(const char *s, const char *suffix);
/* Decimal, whole string, within [min, max]; 0 or -EINVAL / -ERANGE. */
int text_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);
/* A random (version 4) UUID, 36 characters and NUL. */
void text_uuid(char dst[37]);
bool text_is_uuid(const char *s);

#endif
