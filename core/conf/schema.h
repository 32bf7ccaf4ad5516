/* SPDX-License-Identifier: Apache-2.0 */
/* The schema: which sections and keys there are, what they may hold, what they are for. The readers of both syntaxes, the checks,
 * the default file and reload all work from it. */
#ifndef CONF_SCHEMA_H
#define CONF_SCHEMA_H

#include <confuse.h>
#include "conf/conf.h"

enum def_flag {
	DEF_RELOAD = 1 << 0, /* a changed value takes effect without a restart */
	DEF_SHOWN = 1 << 1,  /* written without '#' into the default file */
	DEF_UNSUPPORTED = 1 << 2, /* accepted, with a warning; not in the default file */
};

enum section_flag {
	SECTION_FREE = 1 << 0,        /* names are free, values are strings */
	SECTION_UNSUPPORTED = 1 << 1, /* accepted, with a warning, and ignored */
};

/* One key. `check` gets the value as text and says what is wrong with it ("expected ..."). */
struct def {
	const char *section, *name;
	uint32_t type; /* enum edera_conf_type */
	uint32_t flags;
	const char *def; /* as struct edera_conf_key has it */
	int64_t min, max;
	int (*check)(const char *value, struct edera_error *);
	const char *doc;
};

struct section {
	const char *name; /* with dots */
	uint32_t flags;
	bool reload;
	const char *doc; /* comment over it in the default file; NULL: not in that file */
};

extern const struct section schema_sections[]; /* parents before children; ends with name NULL */
extern const struct def schema_defs[];         /* in the order of the default file; ends with name NULL */

const struct section *schema_section(const char *name);
/* Checks of a free-named section's names and values. */
int schema_check_variant_name(const char *name, struct edera_error *);
int schema_check_variant_image(const char *image, struct edera_error *);

/* The name among `names` that is most like `word`, or NULL if none is near. */
const char *schema_nearest(const char *word, const char *const *names, size_t n);

#endif
