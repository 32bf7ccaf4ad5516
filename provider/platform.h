/* SPDX-License-Identifier: Apache-2.0 */
/* Platforms of images, OS/ARCH[/VARIANT], with the spellings in use brought to one. */
#ifndef PROVIDER_PLATFORM_H
#define PROVIDER_PLATFORM_H

#include "base/error.h"

struct platform {
	char os[32], arch[32], variant[16];
};

int platform_parse(const char *text, struct platform *ret, struct edera_error *);
void platform_host(struct platform *ret);
/* From an index entry or an image config; NULL stands for what is not given. */
void platform_normalize(const char *os, const char *arch, const char *variant, struct platform *ret);
/* How well `have` serves `want`: 0 not at all, higher is better. */
int platform_rank(const struct platform *want, const struct platform *have);
const char *platform_text(const struct platform *, char dst[96]);

#endif
