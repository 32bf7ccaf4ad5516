/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry answers as JSON: manifests, indexes, configs. */
#include "manifest.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct platform platform;
	struct image_config config;
	struct manifest manifest;
	struct descriptor d;
	enum manifest_kind kind;
	json_object *root;
	bool certain;

	platform_parse("linux/arm/v7", &platform, NULL);
	if (!config_parse(data, size, &config, &err))
		config_free(&config);
	if (json_read(data, size, &root, &err))
		return 0;
	if (!manifest_kind(root, &kind, &err)) {
		if (kind == MANIFEST_INDEX)
			index_choose(root, &platform, 0, &d, &certain, &err);
		else if (!manifest_parse(root, &manifest, &err)) {
			manifest_free(&manifest);
			return 0;
		}
	}
	json_object_put(root);
	return 0;
}
