/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel-variant source kind: says which names stand for which kernel images. */
#ifndef EDERA_VARIANT_SOURCE_H
#define EDERA_VARIANT_SOURCE_H

#include <edera/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EDERA_VARIANT_REFRESH 1u /* ask again, whatever the age of what is cached */

struct edera_variant {
	uint32_t size;
	uint32_t reserved;
	const char *name;    /* [A-Za-z0-9][A-Za-z0-9._-]{0,62} */
	const char *image;   /* OCI reference, for people and for pulling */
	const char *digest;  /* what `image` is pinned to, or "" */
	const char *version; /* kernel version, or "" */
};

struct edera_variant_source_ops {
	uint32_t size;
	uint32_t reserved;
	/* Blocking, on a worker. Calls cb for each variant; its strings live for the call; non-zero stops. Where part of the
	 * source cannot be reached, what is known (cached) is given all the same and the host's log says what failed;
	 * an error is returned only when nothing can be given. */
	int (*list)(void *inst, const struct edera_call *, uint32_t flags, int (*cb)(void *user, const struct edera_variant *), void *user, struct edera_error *);
};

#ifdef __cplusplus
}
#endif
#endif
