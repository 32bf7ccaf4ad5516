/* SPDX-License-Identifier: Apache-2.0 */
/* The configured image store, for workers: its ops with the store found, and paths checked. */
#ifndef CORE_IMAGES_H
#define CORE_IMAGES_H

#include <edera/image_store.h>
#include "base/buf.h"
#include "base/path.h"
#include "plugin/plugin_host.h"

#define IMAGE_JSON_MAX (4u << 20) /* manifest or config */

int images_pull(const struct plugin_host *, const struct edera_call *, const struct edera_pull *, char ret_digest[EDERA_DIGEST_MAX], struct edera_error *);
int images_import(const struct plugin_host *, const struct edera_call *, const struct edera_import *, char ret_digest[EDERA_DIGEST_MAX], struct edera_error *);
int images_list(const struct plugin_host *, const struct edera_call *, int (*cb)(void *user, const struct edera_image_info *), void *user, struct edera_error *);
int images_remove(const struct plugin_host *, const struct edera_call *, const char *digest, uint32_t format, bool *ret_removed, struct edera_error *);
int images_file(const struct plugin_host *, const struct edera_call *, const char *digest, uint32_t format, enum edera_image_file which, char ret_path[PATH_CAP],
		struct edera_error *);
int images_read(const struct plugin_host *, const struct edera_call *, const char *digest, uint32_t format, enum edera_image_file which, struct buf *ret,
		struct edera_error *);
const char *images_format_name(uint32_t format); /* "squashfs" */

#endif
