/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/format/format.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

static int append(void *user, unsigned char *data, size_t n)
{
	buf_append(user, data, n);
	return 1;
}

/* Would a YAML 1.1 or 1.2 reader take this for something other than a string? */
static bool needs_quotes(const char *s)
{
	static const char *const words[] = { "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "=", "<<", ".nan", ".inf", "-.inf", "+.inf" };

	char *end;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcasecmp(s, words[i]))
			return true;
	if (s[0] == '0' && s[1] && strchr("xXoObB", s[1]))
		return true;
	strtod(s, &end);
	if (!*end)
		return true;
	/* 1_000, 12:30:45, 2024-01-02 and times after it; not a UUID, and not 10.0.0.1/8. */
	if (strchr("+-0123456789", s[0]) && s[strspn(s, "+-.0123456789_:")] == 0)
		return true;
	return strspn(s, "0123456789") == 4 && s[4] == '-' && strspn(s + 5, "0123456789") <= 2;
}

static int scalar(yaml_emitter_t *e, const char *s, bool is_string)
{
	yaml_scalar_style_t style = is_string && needs_quotes(s) ? YAML_SINGLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE;
	yaml_event_t ev;

	if (is_string && strchr(s, '\n'))
		style = YAML_DOUBLE_QUOTED_SCALAR_STYLE;
	return yaml_scalar_event_initialize(&ev, NULL, NULL, (const yaml_char_t *)s, (int)strlen(s), 1, 1, style) && yaml_emitter_emit(e, &ev);
}

static int node(yaml_emitter_t *e, struct json_object *o)
{
	yaml_event_t ev;

	switch (json_object_get_type(o)) {
	case json_type_object:
		if (!yaml_mapping_start_event_initialize(&ev, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) || !yaml_emitter_emit(e, &ev))
			return 0;
		json_object_object_foreach(o, key, child)
			if (!scalar(e, key, true) || !node(e, child))
				return 0;
		return yaml_mapping_end_event_initialize(&ev) && yaml_emitter_emit(e, &ev);
	case json_type_array:
		if (!yaml_sequence_start_event_initialize(&ev, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE) || !yaml_emitter_emit(e, &ev))
			return 0;
		for (size_t i = 0; i < json_object_array_length(o); i++)
			if (!node(e, json_object_array_get_idx(o, i)))
				return 0;
		return yaml_sequence_end_event_initialize(&ev) && yaml_emitter_emit(e, &ev);
	case json_type_string:
		return scalar(e, json_object_get_string(o), true);
	default:
		return scalar(e, o ? json_object_get_string(o) : "null", false);
	}
}

/* libyaml takes marks of direction for printable. */
static bool is_harmless(struct json_object *o)
{
	const char *s = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	uint32_t c;

	while (*s) {
		size_t n = text_decode(s, &c);

		if (n && c >= 0x7f && text_harmful(c))
			return false;
		s += n ? n : 1;
	}
	return true;
}

void format_yaml(struct buf *b, struct json_object *o)
{
	yaml_emitter_t e;
	yaml_event_t ev;
	int ok;

	if (!yaml_emitter_initialize(&e)) {
		b->failed = true;
		return;
	}
	yaml_emitter_set_output(&e, append, b);
	yaml_emitter_set_unicode(&e, is_harmless(o)); /* else all but ASCII is escaped */
	yaml_emitter_set_width(&e, -1);
	ok = yaml_stream_start_event_initialize(&ev, YAML_UTF8_ENCODING) && yaml_emitter_emit(&e, &ev) &&
	     yaml_document_start_event_initialize(&ev, NULL, NULL, NULL, 1) && yaml_emitter_emit(&e, &ev) && node(&e, o) &&
	     yaml_document_end_event_initialize(&ev, 1) && yaml_emitter_emit(&e, &ev) && yaml_stream_end_event_initialize(&ev) && yaml_emitter_emit(&e, &ev);
	if (!ok)
		b->failed = true;
	yaml_emitter_delete(&e);
}
