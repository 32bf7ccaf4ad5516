/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that a server names: what they mean where they stand, and whose they are. */
#ifndef PROVIDER_URL_H
#define PROVIDER_URL_H

#include <stdbool.h>

#define URL_MAX 8192

/* The absolute http or https address that `reference` means at `base`; NULL if it is none, has credentials in it, or is too long. Free it. */
char *url_join(const char *base, const char *reference);
/* The same scheme, host and port. */
bool url_same_origin(const char *a, const char *b);
/* "host" or "host:port" as it stands in an address, for messages and comparisons; free it. NULL if it is no address. */
char *url_authority(const char *url);

#endif
