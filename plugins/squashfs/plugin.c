/* SPDX-License-Identifier: Apache-2.0 */
/* The image store `squashfs`: registration. */
#include "store.h"

static int init(const struct edera_host *host, const struct edera_conf *conf, void **ret, struct edera_error *err)
{
	return store_open(host, conf, (struct store **)ret, err);
}

static void fini(void *inst) { store_free(inst); }

static const struct edera_provide provides[] = {
	{ .kind = EDERA_KIND_IMAGE_STORE, .name = "squashfs", .ops = &store_ops },
	{ .kind = 0 },
};

static const struct edera_conf_key keys[] = {
	{ "compression-level", EDERA_CONF_INT, 0, "1", "zstd level images are packed with, 1 (fastest) to 22 (smallest)" },
	{ "keep-layers", EDERA_CONF_BOOL, 0, "true", "keep the layers of cached images as they were fetched, so that other images that share them need not fetch them again" },
	{ "mkfs-erofs", EDERA_CONF_STRING, 0, "", "the program that makes erofs images (erofs-utils 1.8.4 or newer), if it is not where programs usually are" },
	{ .name = NULL },
};

EDERA_PLUGIN_DEFINE(.name = "squashfs", .version = PACKAGE_VERSION, .summary = "keeps images as squashfs files, packed by protect-oci-provider",
		    .license = "Apache-2.0", .provides = provides, .conf = keys, .init = init, .fini = fini);
