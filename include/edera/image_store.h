/* SPDX-License-Identifier: Apache-2.0 */
/* The image store kind: keeps images packed for zones, content-addressed, and fetches those it lacks.
 *
 * Ops block and run on workers, several at once. A digest is "sha256:<64 hex>" or "sha512:<128 hex>". An image is named by
 * the digest of its platform manifest and its format; source_digest is what a reference named (an index, perhaps).
 * An entry appears atomically and never changes: hypervisors hold its files open. */
#ifndef EDERA_IMAGE_STORE_H
#define EDERA_IMAGE_STORE_H

#include <edera/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EDERA_DIGEST_MAX 136 /* "sha512:" + 128 + NUL */

/* Numbers of protect.control.v1.OciImageFormat. */
enum edera_image_format {
	EDERA_IMAGE_SQUASHFS = 1,
	EDERA_IMAGE_EROFS = 2,
	EDERA_IMAGE_TAR = 3,
	EDERA_IMAGE_DIRECTORY = 4, /* kernel images: known files only, opened by path */
};

#define EDERA_PULL_OVERWRITE 1u /* fetch and pack again what is cached */
#define EDERA_PULL_UPDATE    2u /* ask the registry what the tag names now, even where a name is cached */

/* Numbers of protect.control.v1.OciImageProgressPhase and ...LayerPhase. */
struct edera_pull_layer {
	char id[EDERA_DIGEST_MAX];
	uint32_t phase;           /* 1 waiting, 2 downloading, 3 downloaded, 4 extracting, 5 extracted */
	uint32_t reserved;
	uint64_t current, total;  /* bytes of the compressed blob; total 0 = unknown */
};

struct edera_pull_progress {
	uint32_t size;
	uint32_t phase;           /* 1 started, 2 resolving, 3 resolved, 4 config, 5 layers, 6 assemble, 7 pack, 8 complete */
	const struct edera_pull_layer *layers;
	uint32_t n_layers;
	uint32_t layer_size;      /* sizeof(struct edera_pull_layer) of the sender */
	uint64_t current, total;  /* of the whole, bytes; total 0 = unknown */
};

struct edera_pull {
	uint32_t size;
	uint32_t format;          /* enum edera_image_format */
	uint32_t flags;           /* EDERA_PULL_* */
	uint32_t reserved;
	const char *reference;    /* as Docker parses references, or "oci:DIR[:TAG]" */
	const char *auth_json;    /* the caller's credentials (docker's auth.json), or NULL */
	void (*progress)(void *user, const struct edera_pull_progress *); /* on the calling thread; may be NULL */
	void *user;
	/* The digest that the reference stands for, where the core knows better than the registry (from containerd on this node); else NULL. The image is kept
	 * under the reference all the same. Since 1.1: look at size. */
	const char *digest;
};

/* Since 1.1. An image that comes as an archive (OCI, or as `docker save` writes it) instead of from a registry. */
struct edera_import {
	uint32_t size;
	uint32_t format;          /* enum edera_image_format */
	uint32_t flags;           /* EDERA_PULL_OVERWRITE */
	int32_t archive_fd;       /* regular file, read from its start; borrowed. -1: only look whether the cache has an image with that digest */
	const char *name;         /* what it shall be called, which also picks it among several; "": what the archive calls it, if it does */
	const char *digest;       /* what it must have: its own digest, or that of the index it is chosen from; "": any */
	void (*progress)(void *user, const struct edera_pull_progress *); /* on the calling thread; may be NULL */
	void *user;
};

struct edera_image_info {
	uint32_t size;
	uint32_t format;
	char digest[EDERA_DIGEST_MAX];
	char source_digest[EDERA_DIGEST_MAX]; /* "" if the reference named the manifest itself */
	uint64_t bytes;                       /* on disk */
	int64_t created;                      /* seconds since 1970: when it entered the cache */
	const char *const *names;             /* references that named it, canonical form */
	size_t n_names;
	/* What it keeps of its layers for other images, on disk; of a file that several images keep, its part. The sum of all images is what there is. Since 1.1: look at size. */
	uint64_t layers_bytes;
};

enum edera_image_file {
	EDERA_IMAGE_FILE_ROOT = 1,     /* the squashfs (or erofs, tar) file; the directory for EDERA_IMAGE_DIRECTORY */
	EDERA_IMAGE_FILE_MANIFEST = 2, /* the platform manifest, as the registry gave it */
	EDERA_IMAGE_FILE_CONFIG = 3,   /* the image config, as the registry gave it */
};

struct edera_image_store_ops {
	uint32_t size;
	uint32_t reserved;
	/* Fetches (or finds cached) and fills digest (EDERA_DIGEST_MAX bytes). Concurrent pulls of one image share the work. */
	int (*pull)(void *inst, const struct edera_call *, const struct edera_pull *, char *ret_digest, struct edera_error *);
	int (*list)(void *inst, const struct edera_call *, int (*cb)(void *user, const struct edera_image_info *), void *user, struct edera_error *);
	/* 0 and *ret_removed = 1, or 0 if it was not there. -EBUSY: being pulled. */
	int (*remove)(void *inst, const struct edera_call *, const char *digest, uint32_t format, int *ret_removed, struct edera_error *);
	/* Absolute path of a file of a cached image into ret_path (4096 bytes). -ENOENT: not cached. */
	int (*file)(void *inst, const struct edera_call *, const char *digest, uint32_t format, uint32_t which, char *ret_path, struct edera_error *);
	/* Since 1.1; may be NULL. As pull, from an archive. -ENOENT with archive_fd -1: it is not cached (or shall be overwritten), and importing it could work. */
	int (*import)(void *inst, const struct edera_call *, const struct edera_import *, char *ret_digest, struct edera_error *);
};

#ifdef __cplusplus
}
#endif
#endif
