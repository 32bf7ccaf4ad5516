/* SPDX-License-Identifier: Apache-2.0 */
/* Which references name which images: (format, name) -> digest, kept in one file. Callers hold the store's lock. */
#ifndef SQUASHFS_NAMES_H
#define SQUASHFS_NAMES_H

#include <edera/image_store.h>
#include <stdbool.h>
#include <stddef.h>

struct name {
	char *text;
	uint32_t format;
	char digest[EDERA_DIGEST_MAX];
	bool imported; /* given by hand: no registry need know it */
};

struct names {
	char *path;
	struct name *list;
	size_t n, cap;
};

/* A file that cannot be read as one counts as empty: names are a convenience, images are found by digest. */
int names_load(struct names *, const char *path, struct edera_error *);
void names_free(struct names *);
const char *names_find(const struct names *, const char *text, uint32_t format); /* digest or NULL */
bool names_imported(const struct names *, const char *text, uint32_t format);
int names_set(struct names *, const char *text, uint32_t format, const char *digest, struct edera_error *);
int names_set_imported(struct names *, const char *text, uint32_t format, const char *digest, struct edera_error *);
int names_drop_digest(struct names *, const char *digest, uint32_t format, struct edera_error *);

#endif
