/* SPDX-License-Identifier: Apache-2.0 */
/* Content digests in the form registries write them, "sha256:<hex>" or "sha512:<hex>". */
#ifndef PROVIDER_DIGEST_H
#define PROVIDER_DIGEST_H

#include <stddef.h>
#include "base/error.h"

#define DIGEST_MAX 136 /* "sha512:" + 128 + NUL */

struct evp_md_ctx_st;
struct digest {
	struct evp_md_ctx_st *ctx;
	const char *algorithm;
};

#define DIGEST_INIT { NULL, NULL }

/* -EINVAL with a sentence for anything but the two algorithms in lower case with the right number of digits. */
int digest_check(const char *text, struct edera_error *);
/* Starts with the algorithm of `like`, a checked digest. Any earlier state is dropped. */
int digest_begin(struct digest *, const char *like, struct edera_error *);
int digest_update(struct digest *, const void *data, size_t n);
int digest_end(struct digest *, char ret[DIGEST_MAX]);
void digest_free(struct digest *);
/* Digest of a whole buffer with the algorithm of `like`. */
int digest_of(const void *data, size_t n, const char *like, char ret[DIGEST_MAX], struct edera_error *);

#endif
