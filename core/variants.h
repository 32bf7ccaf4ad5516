/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel variants from all configured sources, in their order of precedence. Blocking: for workers. */
#ifndef CORE_VARIANTS_H
#define CORE_VARIANTS_H

#include <edera/variant_source.h>
#include "plugin/plugin_host.h"

struct variant {
	char *name, *image, *digest, *version;
	const char *source; /* the provider's name; borrowed from the plugin host */
};

struct variants {
	struct variant *items;
	size_t n;
};

/* A name given by two sources is the first one's. A source that fails is left out; its sentence is logged. */
int variants_collect(const struct plugin_host *, const struct edera_call *, uint32_t flags, struct variants *ret, struct edera_error *);
void variants_free(struct variants *);
/* What to pull for a name: image, pinned to its digest where the source pins. -ENOENT names those that exist. */
int variants_reference(const struct plugin_host *, const struct edera_call *, const char *name, char **ret_reference, struct edera_error *);

#endif
