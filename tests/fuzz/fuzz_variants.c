/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry source reads: an answer of the provider, and its own cache. Only sound variants get through. */
#include "registry.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct catalog c = { 0 };
	struct variant v;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (inspect_parse(text, size, &v)) {
		snprintf(v.tag, sizeof v.tag, "tag");
		catalog_add(&c, &v);
		catalog_free(&c);
	}
	if (!catalog_parse(text, size, "r", &c))
		for (size_t i = 0; i < c.n; i++)
			if (!c.list[i].name[0] || !text_valid_digest(c.list[i].digest))
				abort();
	catalog_free(&c);
	free(text);
	return 0;
}
