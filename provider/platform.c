/* SPDX-License-Identifier: Apache-2.0 */
#include "platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static void copy_lower(char *dst, size_t cap, const char *from)
{
	size_t n = 0;

	for (; from && from[n] && n < cap - 1; n++)
		dst[n] = (char)(from[n] >= 'A' && from[n] <= 'Z' ? from[n] + 32 : from[n]);
	dst[n] = 0;
}

void platform_normalize(const char *os, const char *arch, const char *variant, struct platform *ret)
{
	static const struct {
		const char *from, *to, *variant;
	} spellings[] = {
		{ "x86_64", "amd64", NULL }, { "x86-64", "amd64", NULL }, { "aarch64", "arm64", NULL }, { "armhf", "arm", "v7" }, { "armel", "arm", "v6" },
		{ "i386", "386", NULL }, { "i486", "386", NULL }, { "i586", "386", NULL }, { "i686", "386", NULL },
	};

	copy_lower(ret->os, sizeof ret->os, os);
	copy_lower(ret->arch, sizeof ret->arch, arch);
	copy_lower(ret->variant, sizeof ret->variant, variant);
	for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
		if (!strcmp(ret->arch, spellings[i].from)) {
			strcpy(ret->arch, spellings[i].to);
			if (spellings[i].variant && !ret->variant[0])
				strcpy(ret->variant, spellings[i].variant);
		}
	if (ret->variant[0] >= '0' && ret->variant[0] <= '9') { /* "8" for "v8" */
		size_t n = strnlen(ret->variant, sizeof ret->variant - 2);

		memmove(ret->variant + 1, ret->variant, n);
		ret->variant[0] = 'v';
		ret->variant[n + 1] = 0;
	}
	/* What the architecture means anyway is the same as saying nothing. */
	if ((!strcmp(ret->arch, "arm64") && (!strcmp(ret->variant, "v8") || !strcmp(ret->variant, "v8.0"))) ||
	    (!strcmp(ret->arch, "amd64") && !strcmp(ret->variant, "v1")))
		ret->variant[0] = 0;
	if (!strcmp(ret->arch, "arm") && !ret->variant[0])
		strcpy(ret->variant, "v7");
}

int platform_parse(const char *text, struct platform *ret, struct edera_error *err)
{
	char os[32], arch[32], variant[16] = "", rest[2] = "";

	if (sscanf(text, "%31[A-Za-z0-9_.-]/%31[A-Za-z0-9_.-]%1[/]%15[A-Za-z0-9_.-]", os, arch, rest, variant) < 2 || (rest[0] && !variant[0]) ||
	    strlen(os) + 1 + strlen(arch) + strlen(rest) + strlen(variant) != strlen(text))
		return err_set(err, -EINVAL, "'%.100s' is not a platform; it is written OS/ARCH[/VARIANT], as in linux/arm64", text);
	platform_normalize(os, arch, variant, ret);
	return 0;
}

void platform_host(struct platform *ret)
{
	struct utsname u;

	uname(&u);
	platform_normalize("linux", !strncmp(u.machine, "armv6", 5) ? "armel" : !strncmp(u.machine, "armv", 4) ? "armhf" : u.machine, NULL, ret);
}

static int variant_number(const struct platform *p)
{
	if (!p->variant[0])
		return !strcmp(p->arch, "amd64") ? 1 : !strcmp(p->arch, "arm64") ? 8 : 0;
	return p->variant[0] == 'v' ? atoi(p->variant + 1) : -1;
}

int platform_rank(const struct platform *want, const struct platform *have)
{
	int w = variant_number(want), h = variant_number(have);

	if (strcmp(want->os, have->os) || strcmp(want->arch, have->arch))
		return 0;
	if (!strcmp(want->variant, have->variant))
		return 1000;
	/* A lower variant of the same architecture runs on a higher one; the highest of them is the best. */
	if (w > 0 && h > 0 && h <= w)
		return 1 + h;
	return 0;
}

const char *platform_text(const struct platform *p, char dst[96])
{
	snprintf(dst, 96, "%s/%s%s%s", p->os, p->arch, p->variant[0] ? "/" : "", p->variant);
	return dst;
}
