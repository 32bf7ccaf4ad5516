/* SPDX-License-Identifier: Apache-2.0 */
/* The image store: directories under CACHE/images, one an image and format, that appear by rename and never change.
 *
 *   images/sha256-<hex>.squashfs/image            the packed image (of a kernel image: the directory kernel/)
 *                               /manifest.json    as the registry gave them
 *                               /config.json
 *                               /source           the digest the reference named, if that was an index
 *                               /layers/          what it was made of (see layers.h)
 *   images/names.json                             which references name which digest
 *   images/.work/                                 what is being made or taken away; emptied at start */
#ifndef SQUASHFS_STORE_H
#define SQUASHFS_STORE_H

#include <edera/image_store.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include "base/error.h"
#include "base/path.h"
#include "base/reference.h"
#include "names.h"

struct pull;

struct store {
	const struct edera_host *host;
	const struct edera_conf *conf;
	char images[PATH_CAP], work[PATH_CAP], layers[PATH_CAP];
	bool keep;  /* layers */
	uid_t user; /* the provider's, for directories it writes to */
	gid_t group;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct pull *pulls; /* in flight */
	struct names names;
};

extern const struct edera_image_store_ops store_ops;

int store_open(const struct edera_host *, const struct edera_conf *, struct store **ret, struct edera_error *);
void store_free(struct store *);
int store_import(void *inst, const struct edera_call *, const struct edera_import *, char *ret_digest, struct edera_error *);
int store_pull(void *inst, const struct edera_call *, const struct edera_pull *, char *ret_digest, struct edera_error *);

/* "squashfs", ...; NULL for a number that is none. */
const char *format_name(uint32_t format);
int entry_path(const struct store *, const char *digest, uint32_t format, char dst[PATH_CAP], struct edera_error *);
bool entry_exists(const struct store *, const char *digest, uint32_t format);
/* Walks the entries; cb gets digest and format; its non-zero return stops and is returned. */
int entry_each(const struct store *, int (*cb)(void *user, const char *digest, uint32_t format), void *user, struct edera_error *);
/* "" if the entry has none. */
void entry_source(const struct store *, const char *digest, uint32_t format, char dst[EDERA_DIGEST_MAX]);
/* What names it, canonically: as Docker does, or the text itself for other origins. */
int image_name(const char *reference, char dst[REFERENCE_CAP], struct edera_error *);

#endif
