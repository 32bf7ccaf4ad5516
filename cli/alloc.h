/* SPDX-License-Identifier: Apache-2.0 */
/* A command line that gets no memory has nothing better to do than say so and end. */
#ifndef CLI_ALLOC_H
#define CLI_ALLOC_H

#include <stdio.h>
#include <stdlib.h>

static inline void *need(void *p)
{
	if (!p) {
		fputs("protect: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

#endif
