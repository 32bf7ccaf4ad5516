/* SPDX-License-Identifier: Apache-2.0 */
/* What of an image's configuration (JSON as the registry gave it, not to be trusted) matters for running it. */
#ifndef ZONE_IMAGE_CONFIG_H
#define ZONE_IMAGE_CONFIG_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct image_config {
	char **env, **entrypoint, **cmd; /* ended by NULL; NULL: none */
	char *user, *working_dir;        /* never NULL */
	int stop_signal;                 /* 0: it does not say, or not what we know */
};

/* No bytes at all are an image that says nothing. */
int image_config_parse(const void *json, size_t len, struct image_config *ret, struct edera_error *);
void image_config_free(struct image_config *);

#endif
