/* SPDX-License-Identifier: Apache-2.0 */
/* Image references: what parses has a canonical form that parses to itself. */
#include "origin.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), once[ORIGIN_CAP], twice[ORIGIN_CAP];
	struct edera_error err = EDERA_ERROR_INIT;
	struct origin o;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (!origin_parse(text, &o, &err)) {
		origin_text(&o, once);
		if (origin_parse(once, &o, &err))
			abort();
		origin_text(&o, twice);
		if (strcmp(once, twice))
			abort();
	}
	origin_parse_repository(text, &o, &err);
	free(text);
	return 0;
}
