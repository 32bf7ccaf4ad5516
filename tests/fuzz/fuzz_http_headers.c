/* SPDX-License-Identifier: Apache-2.0 */
/* Header values: WWW-Authenticate, Link, Location, Retry-After, Content-Range. */
#include "auth.h"
#include "headers.h"
#include "url.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char base[] = "https://registry.example:5000/v2/a/blobs/x?y=z";
	char *text = malloc(size + 1), link[200], *to;
	struct challenge c;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	challenge_parse(text, size, &c);
	if (c.bearer && !c.realm[0])
		abort();
	if (header_next_link(text, link, sizeof link) && strlen(link) >= sizeof link)
		abort();
	if (header_retry_after(text) < 0)
		abort();
	header_range_begins(text, 100);
	to = url_join(base, text);
	if (to) {
		char *host = url_authority(to);

		if ((strncmp(to, "https://", 8) && strncmp(to, "http://", 7)) || strlen(to) >= URL_MAX || !host)
			abort();
		/* Whom credentials may go to: the same origin, said by the same words. */
		if (url_same_origin(to, base) && (strncasecmp(to, "https://", 8) || strcasecmp(host, "registry.example:5000")))
			abort();
		free(host);
	}
	free(to);
	free(text);
	return 0;
}
