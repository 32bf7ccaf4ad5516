/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <stdbool.h>
#include <string.h>

/* json-c takes some hundred bytes for the smallest value, so a few megabytes of text could become a gigabyte. */
static int count_values(const char *p, size_t len)
{
	int depth = 0, values = 0;
	bool string = false;

	for (size_t i = 0; i < len; i++) {
		if (string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				string = false;
			continue;
		}
		switch (p[i]) {
		case '"':
			string = true;
			break;
		case '[':
		case '{':
			if (++depth > JSON_DEPTH_MAX)
				return -E2BIG;
			values++;
			break;
		case ']':
		case '}':
			depth--;
			break;
		case ',':
			values++;
			break;
		case 0:
			return -EBADMSG;
		}
		if (values > JSON_VALUES_MAX)
			return -E2BIG;
	}
	return 0;
}

int json_read(const void *text, size_t len, json_object **ret, struct edera_error *err)
{
	json_tokener *tok;
	json_object *o;
	int r = len > INT32_MAX ? -E2BIG : count_values(text, len);

	if (r)
		return err_set(err, r, r == -E2BIG ? "the JSON text is deeper than %d levels or has more than %d values" : "the JSON text holds a NUL byte",
			       JSON_DEPTH_MAX, JSON_VALUES_MAX);
	tok = json_tokener_new_ex(JSON_DEPTH_MAX + 1);
	if (!tok)
		return err_errno(err, -ENOMEM, "cannot read JSON");
	json_tokener_set_flags(tok, JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, text, (int)len);
	if (!o || json_tokener_get_error(tok) != json_tokener_success)
		r = err_set(err, -EBADMSG, "it is not JSON: %s", json_tokener_error_desc(json_tokener_get_error(tok)));
	for (size_t i = json_tokener_get_parse_end(tok); !r && i < len; i++)
		if (!strchr(" \t\r\n", ((const char *)text)[i]))
			r = err_set(err, -EBADMSG, "there is something after the end of the JSON text");
	json_tokener_free(tok);
	if (r) {
		json_object_put(o);
		return r;
	}
	*ret = o;
	return 0;
}

json_object *json_member(json_object *o, const char *key, enum json_type type)
{
	json_object *v;

	if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, type))
		return NULL;
	return v;
}

const char *json_text(json_object *o, const char *key)
{
	json_object *v = json_member(o, key, json_type_string);
	const char *s = v ? json_object_get_string(v) : NULL;

	return s && strlen(s) == (size_t)json_object_get_string_len(v) ? s : NULL;
}

int64_t json_number(json_object *o, const char *key, int64_t fallback)
{
	json_object *v = json_member(o, key, json_type_int);

	return v ? json_object_get_int64(v) : fallback;
}
