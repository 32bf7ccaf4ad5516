/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/format/format.h"

#include <string.h>

/* JSON may hold C1 controls and marks of direction as they are; a terminal would obey them. Within JSON they occur in strings only,
 * where \uXXXX means the same. */
static void append_defused(struct buf *b, const char *json)
{
	while (*json) {
		uint32_t c = 0;
		size_t n = text_decode(json, &c);

		if (c >= 0x7f && text_harmful(c))
			buf_printf(b, "\\u%04x", c);
		else
			buf_append(b, json, n ? n : 1);
		json += n ? n : 1;
	}
}

void format_json(struct buf *b, struct json_object *o, bool pretty)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE | (pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : JSON_C_TO_STRING_PLAIN);

	append_defused(b, json_object_to_json_string_ext(o, flags));
}

static void quoted(struct buf *b, const char *s)
{
	struct buf safe _buf_ = BUF_INIT;

	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			buf_puts(&safe, "\\");
		buf_append(&safe, s, 1);
	}
	buf_puts(b, "\"");
	if (safe.data)
		text_escape(b, (const char *)safe.data);
	buf_puts(b, "\"");
}

static void flatten(struct buf *b, const char *path, struct json_object *o)
{
	struct buf below _buf_ = BUF_INIT;
	const char *dot = *path ? "." : "";

	switch (json_object_get_type(o)) {
	case json_type_object: {
		json_object_object_foreach(o, key, child) {
			buf_clear(&below);
			buf_printf(&below, "%s%s", path, dot);
			text_escape(&below, key);
			flatten(b, (const char *)below.data, child);
		}
		return;
	}
	case json_type_array:
		for (size_t i = 0; i < json_object_array_length(o); i++) {
			buf_clear(&below);
			buf_printf(&below, "%s%s%zu", path, dot, i);
			flatten(b, (const char *)below.data, json_object_array_get_idx(o, i));
		}
		return;
	default:
		buf_printf(b, "%s%s=", b->len ? " " : "", path);
		quoted(b, o ? json_object_get_string(o) : "");
	}
}

void format_key_value(struct buf *b, struct json_object *o)
{
	struct buf line _buf_ = BUF_INIT;

	flatten(&line, "", o);
	buf_append(b, line.data, line.len);
}
