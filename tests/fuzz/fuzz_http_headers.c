/* SPDX-License-Identifier: Apache-2.0 */
/* Header values: WWW-Authenticate, Link, Retry-After, Content-Range. */
#include "auth.h"
#include "headers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), link[200];
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
	free(text);
	return 0;
}
