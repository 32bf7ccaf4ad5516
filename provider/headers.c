/* SPDX-License-Identifier: Apache-2.0 */
#include "headers.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

double header_retry_after(const char *value)
{
	char *end;
	unsigned long s = strtoul(value, &end, 10);
	time_t date;

	if (end != value)
		return *end == 0 && *value != '-' ? (double)s : 0; /* some send "880us" and the like */
	date = curl_getdate(value, NULL);
	return date == -1 || date < time(NULL) ? 0 : (double)(date - time(NULL));
}

/* One ";name=value" after p, value perhaps quoted; NULL at the end of the link. */
static const char *parameter(const char *p, const char **name, size_t *name_len, const char **value, size_t *value_len)
{
	p += strspn(p, " \t");
	if (*p != ';')
		return NULL;
	p += 1 + strspn(p + 1, " \t");
	*name = p;
	*name_len = strcspn(p, "=;, \t");
	p += *name_len;
	p += strspn(p, " \t");
	*value = "";
	*value_len = 0;
	if (*p != '=')
		return p;
	p += 1 + strspn(p + 1, " \t");
	if (*p == '"') {
		*value = ++p;
		*value_len = strcspn(p, "\"");
		p += *value_len;
		return *p ? p + 1 : p;
	}
	*value = p;
	*value_len = strcspn(p, ";, \t");
	return p + *value_len;
}

bool header_next_link(const char *value, char *dst, size_t cap)
{
	const char *p = value;

	while ((p = strchr(p, '<'))) {
		const char *target = p + 1, *name, *text;
		size_t len = strcspn(target, ">"), name_len, text_len;
		bool next = false;

		if (!target[len])
			return false;
		p = target + len + 1;
		for (const char *q = p; (q = parameter(q, &name, &name_len, &text, &text_len)); p = q)
			next |= name_len == 3 && !strncasecmp(name, "rel", 3) && text_len == 4 && !strncasecmp(text, "next", 4);
		if (next && len < cap) {
			memcpy(dst, target, len);
			dst[len] = 0;
			return true;
		}
	}
	return false;
}

bool header_range_begins(const char *value, uint64_t at)
{
	unsigned long long from;

	return sscanf(value, "bytes %llu-", &from) == 1 && from == at;
}
