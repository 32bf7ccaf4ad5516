/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests, indexes and image configs, OCI's and Docker's. What one is, its content decides, not the header it came with. */
#ifndef PROVIDER_MANIFEST_H
#define PROVIDER_MANIFEST_H

#include <stdbool.h>
#include "digest.h"
#include "json.h"
#include "platform.h"

#define MANIFEST_MAX (4u << 20)   /* bytes of a manifest or index */
#define CONFIG_MAX (8u << 20)     /* bytes of a config */
#define MANIFEST_LAYERS_MAX 4096
#define MANIFEST_URLS_MAX 4

struct descriptor {
	char digest[DIGEST_MAX];
	char media_type[128];
	uint64_t size;
	const char *urls[MANIFEST_URLS_MAX]; /* borrowed from the parsed JSON */
};

struct manifest {
	json_object *root;
	struct descriptor config;
	struct descriptor *layers; /* oldest first */
	uint32_t n_layers;
};

struct image_config {
	json_object *root;
	struct platform platform;
	bool has_platform;
	bool any_variant;      /* it names none */
	const char **diff_ids; /* borrowed from root */
	uint32_t n_diff_ids;
};

enum manifest_kind { MANIFEST_IMAGE, MANIFEST_INDEX };

/* Says which of the two the JSON is; refuses what is ambiguous, Docker's schema 1, and artifacts that are no images. */
int manifest_kind(json_object *, enum manifest_kind *ret, struct edera_error *);
/* Takes ownership of root on success. */
int manifest_parse(json_object *root, struct manifest *ret, struct edera_error *);
void manifest_free(struct manifest *);
/* The best entry of an index for a platform: *ret_certain. Where none names it, the nth of those that name no platform at all; only what
 * they hold can tell. */
int index_choose(json_object *root, const struct platform *, unsigned nth, struct descriptor *ret, bool *ret_certain, struct edera_error *);
int config_parse(const void *text, size_t len, struct image_config *ret, struct edera_error *);
void config_free(struct image_config *);
int descriptor_parse(json_object *, struct descriptor *ret, struct edera_error *);

#endif
