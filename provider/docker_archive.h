/* SPDX-License-Identifier: Apache-2.0 */
/* What `docker save` writes: a list of images with the files of their configs and layers, and no manifest. One is made for it, as
 * a registry would have it, from the digests of the files. */
#ifndef PROVIDER_DOCKER_ARCHIVE_H
#define PROVIDER_DOCKER_ARCHIVE_H

#include <stdbool.h>
#include "base/buf.h"
#include "digest.h"
#include "json.h"

struct docker_file {
	char *path;
	char digest[DIGEST_MAX];
	uint64_t offset, size;
};

struct docker_archive {
	struct docker_file config, *layers; /* oldest first */
	uint32_t n_layers;
	json_object *names; /* of the image, in canonical form */
	struct digest digest;
};

/* Picks the image of that canonical name, or the only one, from manifest.json; its config's path goes to `path`. With `lenient` the only
 * one may be called anything. */
int docker_archive_choose(struct docker_archive *, const void *list, size_t len, const char *name, bool lenient, char path[4096], struct edera_error *);
/* The one at this place in the list instead. -ENOENT without a sentence: there is none. */
int docker_archive_nth(struct docker_archive *, const void *list, size_t len, size_t nth, char path[4096], struct edera_error *);
int docker_archive_config(struct docker_archive *, const char *path, const struct buf *config, struct edera_error *);
/* 1 and the path of layer i; 0 after the last. */
int docker_archive_next(struct docker_archive *, uint32_t i, char path[4096]);
/* Layer i begins at this place in the archive. True if an earlier one does: its digest is known. */
bool docker_archive_layer_again(struct docker_archive *, uint32_t i, uint64_t offset);
int docker_archive_layer_begin(struct docker_archive *, uint32_t i, uint64_t size, struct edera_error *);
int docker_archive_layer_data(struct docker_archive *, const void *data, size_t n);
int docker_archive_layer_end(struct docker_archive *, uint32_t i);
/* The manifest, as JSON. */
int docker_archive_manifest(const struct docker_archive *, struct buf *ret, struct edera_error *);
/* The file with that digest. */
bool docker_archive_path(const struct docker_archive *, const char *digest, char path[4096]);
void docker_archive_free(struct docker_archive *);

#endif
