/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/format/format.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>
#include <wchar.h>

size_t format_decode(const char *s, uint32_t *ret)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t n = u[0] < 0x80 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? u[0] : n == 2 ? u[0] & 0x1f : n == 3 ? u[0] & 0x0f : u[0] & 7;

	if (!u[0] || strnlen(s, n) < n || !text_valid_utf8(s, n))
		return 0;
	for (size_t i = 1; i < n; i++)
		c = c << 6 | (u[i] & 0x3f);
	*ret = c;
	return n;
}

bool format_harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void format_escape(struct buf *b, const char *s)
{
	while (*s) {
		uint32_t c = 0;
		size_t n = format_decode(s, &c);

		if (!n) {
			buf_printf(b, "\\x%02x", (unsigned char)*s);
			n = 1;
		} else if (c == '\n') {
			buf_puts(b, "\\n");
		} else if (c == '\t') {
			buf_puts(b, "\\t");
		} else if (format_harmful(c)) {
			buf_printf(b, c < 0x80 ? "\\x%02x" : "\\u{%04x}", c);
		} else {
			buf_append(b, s, n);
		}
		s += n;
	}
}

size_t format_width(const char *s)
{
	size_t width = 0;

	while (*s) {
		uint32_t c = 0;
		size_t n = format_decode(s, &c);
		int w = n ? wcwidth((wchar_t)c) : 1;

		/* A locale that knows no such character says -1. */
		width += w < 0 ? 1 : (size_t)w;
		s += n ? n : 1;
	}
	return width;
}

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
