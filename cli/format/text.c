/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/format/format.h"

#include <ctype.h>
#include <string.h>

void format_enum_word(struct buf *b, const ProtobufCEnumDescriptor *d, int value)
{
	const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(d, value);
	size_t common = 0;

	if (!v) {
		buf_printf(b, "%d", value);
		return;
	}
	for (size_t i = 0; d->values[0].name[i]; i++) {
		for (unsigned k = 1; k < d->n_values; k++)
			if (d->values[k].name[i] != d->values[0].name[i])
				goto found;
		if (d->values[0].name[i] == '_')
			common = i + 1;
	}
found:
	for (const char *c = v->name + common; *c; c++) {
		char low = (char)tolower((unsigned char)*c);

		buf_append(b, &low, 1);
	}
}
