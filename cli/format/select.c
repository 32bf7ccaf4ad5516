/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/format/format.h"
#include "cli/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH 8

struct selector {
	const ProtobufCFieldDescriptor *path[DEPTH];
	size_t depth;
	bool negated;
	char *value;
};

/* Is `name` (as in the .proto, or in JSON's camelCase) this field? */
static bool names_field(const char *field, const char *name, size_t len)
{
	size_t i = 0;

	for (; *field; field++) {
		bool joint = field[0] == '_' && field[1] && i < len && name[i] != '_';

		if (joint)
			field++;
		if (i >= len || name[i] != (joint && *field >= 'a' && *field <= 'z' ? *field - 32 : *field))
			return false;
		i++;
	}
	return i == len;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *d, const char *name, size_t len)
{
	for (unsigned i = 0; i < d->n_fields; i++)
		if (names_field(d->fields[i].name, name, len))
			return &d->fields[i];
	return NULL;
}

static int parse_path(struct selector *s, const char *text, size_t len, const ProtobufCMessageDescriptor *d, struct edera_error *err)
{
	const char *at = text, *end = text + len;

	while (at <= end) {
		size_t n = 0;
		const ProtobufCFieldDescriptor *f;

		while (at + n < end && at[n] != '.')
			n++;
		f = d ? find_field(d, at, n) : NULL;
		if (!f || s->depth == DEPTH || f->label == PROTOBUF_C_LABEL_REPEATED)
			return err_set(err, -EINVAL, "the selector '%s' names no field: there is no '%.*s' to compare (try status.state=ready)", text, (int)(at + n - text), text);
		s->path[s->depth++] = f;
		d = f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
		at += n + 1;
	}
	if (d)
		return err_set(err, -EINVAL, "the selector '%s' stops at a group of fields; name one of them (as in status.state=ready)", text);
	return 0;
}

int selector_new(const char *text, const ProtobufCMessageDescriptor *d, struct selector **ret, struct edera_error *err)
{
	const char *equals = strchr(text, '=');
	struct selector *s;
	size_t len;
	int r;

	if (!equals || equals == text)
		return err_set(err, -EINVAL, "the selector '%s' is not of the form FIELD=VALUE or FIELD!=VALUE", text);
	s = need(calloc(1, sizeof *s));
	len = (size_t)(equals - text);
	if (text[len - 1] == '!') {
		s->negated = true;
		len--;
	}
	s->value = need(strdup(equals[1] == '=' ? equals + 2 : equals + 1));
	r = parse_path(s, text, len, d, err);
	if (r) {
		selector_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static bool enum_is(const ProtobufCEnumDescriptor *d, int v, const char *wanted)
{
	const ProtobufCEnumValue *e = protobuf_c_enum_descriptor_get_value(d, v);
	struct buf word _buf_ = BUF_INIT;

	format_enum_word(&word, d, v);
	return !strcasecmp((const char *)word.data, wanted) || (e && !strcasecmp(e->name, wanted));
}

/* p: the field's place, or NULL where a message on the way is absent, which compares as the default. */
static bool value_is(const ProtobufCFieldDescriptor *f, const void *p, const char *wanted)
{
	static const uint64_t zero[4];
	char number[40];

	if (!p)
		p = zero;
	switch (f->type) {
	case PROTOBUF_C_TYPE_ENUM:
		return enum_is(f->descriptor, *(const int *)p, wanted);
	case PROTOBUF_C_TYPE_STRING:
		return !strcmp(*(const char *const *)p ? *(const char *const *)p : "", wanted);
	case PROTOBUF_C_TYPE_BOOL:
		return !strcasecmp(*(const protobuf_c_boolean *)p ? "true" : "false", wanted);
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		snprintf(number, sizeof number, "%" PRIu64, *(const uint64_t *)p);
		break;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		snprintf(number, sizeof number, "%" PRId64, *(const int64_t *)p);
		break;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		snprintf(number, sizeof number, "%" PRIu32, *(const uint32_t *)p);
		break;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		snprintf(number, sizeof number, "%" PRId32, *(const int32_t *)p);
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		return strtod(wanted, NULL) == *(const double *)p;
	case PROTOBUF_C_TYPE_FLOAT:
		return strtof(wanted, NULL) == *(const float *)p;
	default:
		return false;
	}
	return !strcmp(number, wanted);
}

bool selector_match(const struct selector *s, const void *message)
{
	const char *m = message;
	const void *p = NULL;

	for (size_t i = 0; i < s->depth && m; i++) {
		const ProtobufCFieldDescriptor *f = s->path[i];

		p = m + f->offset;
		if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && *(const uint32_t *)(const void *)(m + f->quantifier_offset) != f->id)
			p = NULL;
		m = i + 1 < s->depth && p ? *(const char *const *)p : NULL;
		if (!m && i + 1 < s->depth)
			p = NULL;
	}
	return value_is(s->path[s->depth - 1], p, s->value) != s->negated;
}

void selector_free(struct selector *s)
{
	if (s)
		free(s->value);
	free(s);
}
