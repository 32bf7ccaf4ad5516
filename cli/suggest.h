/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the known words was meant? */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

struct suggest {
	const char *word;
	const char *best; /* NULL: none is near */
	size_t distance;
};

struct suggest suggest_init(const char *word);
void suggest_try(struct suggest *, const char *candidate);

#endif
