/* SPDX-License-Identifier: Apache-2.0 */
/* Values of HTTP headers that registries answer with. */
#ifndef PROVIDER_HEADERS_H
#define PROVIDER_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Retry-After: seconds or a date, as seconds from now; 0 for what makes no sense. */
double header_retry_after(const char *value);
/* Link: the target of <...>; rel="next", whatever other parameters and links there are. */
bool header_next_link(const char *value, char *dst, size_t cap);
/* Content-Range: whether it begins at that byte. */
bool header_range_begins(const char *value, uint64_t at);

#endif
