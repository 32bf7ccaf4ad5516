/* SPDX-License-Identifier: Apache-2.0 */
/* proto3 JSON from protobuf-c's descriptors. */
#include "cli/format/format.h"
#include "google/protobuf/struct.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct json_object *text(const char *s)
{
	return json_object_new_string(s ? s : "");
}

static struct json_object *base64(const ProtobufCBinaryData *d)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	struct buf b _buf_ = BUF_INIT;

	for (size_t i = 0; i < d->len; i += 3) {
		size_t left = d->len - i;
		uint32_t v = (uint32_t)d->data[i] << 16 | (left > 1 ? (uint32_t)d->data[i + 1] << 8 : 0) | (left > 2 ? d->data[i + 2] : 0);
		char four[4] = { digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=', left > 2 ? digits[v & 63] : '=' };

		buf_append(&b, four, 4);
	}
	return json_object_new_string_len((const char *)b.data, (int)b.len);
}

static struct json_object *integer64(bool is_signed, uint64_t v)
{
	char s[24];

	if (is_signed)
		snprintf(s, sizeof s, "%" PRId64, (int64_t)v);
	else
		snprintf(s, sizeof s, "%" PRIu64, v);
	return text(s);
}

/* The shortest digits that read back as the same number, as 17 would be noise; without an exponent where that is readable. */
static struct json_object *real(double v, bool single)
{
	int digits = 1, exponent;
	char s[40];

	if (isnan(v))
		return text("NaN");
	if (isinf(v))
		return text(v > 0 ? "Infinity" : "-Infinity");
	for (; digits <= 17; digits++) {
		snprintf(s, sizeof s, "%.*e", digits - 1, v);
		if (single ? strtof(s, NULL) == (float)v : strtod(s, NULL) == v)
			break;
	}
	exponent = atoi(strchr(s, 'e') + 1);
	if (exponent >= -4 && exponent < 16)
		snprintf(s, sizeof s, "%.*f", digits - 1 - exponent > 1 ? digits - 1 - exponent : 1, v);
	return json_object_new_double_s(v, s);
}

static struct json_object *enumerator(const ProtobufCEnumDescriptor *d, int v)
{
	const ProtobufCEnumValue *e = protobuf_c_enum_descriptor_get_value(d, v);

	return e ? text(e->name) : json_object_new_int(v);
}

static struct json_object *timestamp(const Google__Protobuf__Timestamp *t)
{
	time_t seconds = (time_t)t->seconds;
	struct tm tm;
	char s[64];
	size_t n;

	if (!gmtime_r(&seconds, &tm))
		return text("");
	n = (size_t)snprintf(s, sizeof s, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	if (t->nanos % 1000)
		snprintf(s + n, sizeof s - n, ".%09dZ", t->nanos);
	else if (t->nanos % 1000000)
		snprintf(s + n, sizeof s - n, ".%06dZ", t->nanos / 1000);
	else if (t->nanos)
		snprintf(s + n, sizeof s - n, ".%03dZ", t->nanos / 1000000);
	else
		snprintf(s + n, sizeof s - n, "Z");
	return text(s);
}

static struct json_object *any_value(const Google__Protobuf__Value *);

static struct json_object *any_struct(const Google__Protobuf__Struct *s)
{
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < s->n_fields; i++)
		json_object_object_add(o, s->fields[i]->key, s->fields[i]->value ? any_value(s->fields[i]->value) : NULL);
	return o;
}

static struct json_object *any_value(const Google__Protobuf__Value *v)
{
	struct json_object *o;

	switch (v->kind_case) {
	case GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE:
		return real(v->number_value, false);
	case GOOGLE__PROTOBUF__VALUE__KIND_STRING_VALUE:
		return text(v->string_value);
	case GOOGLE__PROTOBUF__VALUE__KIND_BOOL_VALUE:
		return json_object_new_boolean(v->bool_value);
	case GOOGLE__PROTOBUF__VALUE__KIND_STRUCT_VALUE:
		return any_struct(v->struct_value);
	case GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE:
		o = json_object_new_array();
		for (size_t i = 0; i < v->list_value->n_values; i++)
			json_object_array_add(o, any_value(v->list_value->values[i]));
		return o;
	default:
		return NULL; /* json-c's null */
	}
}

static struct json_object *value(const ProtobufCFieldDescriptor *f, const void *p)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		return json_object_new_int(*(const int32_t *)p);
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		return json_object_new_int64(*(const uint32_t *)p);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		return integer64(true, *(const uint64_t *)p);
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		return integer64(false, *(const uint64_t *)p);
	case PROTOBUF_C_TYPE_FLOAT:
		return real(*(const float *)p, true);
	case PROTOBUF_C_TYPE_DOUBLE:
		return real(*(const double *)p, false);
	case PROTOBUF_C_TYPE_BOOL:
		return json_object_new_boolean(*(const protobuf_c_boolean *)p);
	case PROTOBUF_C_TYPE_ENUM:
		return enumerator(f->descriptor, *(const int *)p);
	case PROTOBUF_C_TYPE_STRING:
		return text(*(const char *const *)p);
	case PROTOBUF_C_TYPE_BYTES:
		return base64(p);
	case PROTOBUF_C_TYPE_MESSAGE:
		return format_message(*(const ProtobufCMessage *const *)p);
	}
	return NULL;
}

static size_t value_size(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	default:
		return 4;
	}
}

/* Is a field without presence at its default? */
static bool is_default(const ProtobufCFieldDescriptor *f, const void *p)
{
	static const char zero[sizeof(double)];

	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
		return !*(const char *const *)p || !**(const char *const *)p;
	case PROTOBUF_C_TYPE_BYTES:
		return !((const ProtobufCBinaryData *)p)->len;
	case PROTOBUF_C_TYPE_MESSAGE:
		return !*(const void *const *)p;
	default:
		return !memcmp(p, zero, value_size(f));
	}
}

/* map<K, V> arrives as a repeated message which protoc names after the field: "fdlist" in Info is Info.FdlistEntry. */
static bool is_map(const ProtobufCMessageDescriptor *parent, const ProtobufCFieldDescriptor *f)
{
	const ProtobufCMessageDescriptor *entry = f->descriptor;
	const char *name = entry->name;
	size_t n = strlen(parent->name);
	bool upper = true;

	if (entry->n_fields != 2 || strcmp(entry->fields[0].name, "key") || strcmp(entry->fields[1].name, "value"))
		return false;
	if (strncmp(name, parent->name, n) || name[n] != '.')
		return false;
	name += n + 1;
	for (const char *c = f->name; *c; c++) {
		if (*c == '_') {
			upper = true;
			continue;
		}
		if (*name++ != (upper && *c >= 'a' && *c <= 'z' ? *c - 32 : *c))
			return false;
		upper = false;
	}
	return !strcmp(name, "Entry");
}

static struct json_object *map(const ProtobufCMessage *const *entries, size_t n)
{
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < n; i++) {
		const ProtobufCFieldDescriptor *k = &entries[i]->descriptor->fields[0], *v = &entries[i]->descriptor->fields[1];
		struct json_object *key = value(k, (const char *)entries[i] + k->offset);
		const void *at = (const char *)entries[i] + v->offset;
		bool absent = v->type == PROTOBUF_C_TYPE_MESSAGE && is_default(v, at);

		json_object_object_add(o, json_object_get_string(key), absent ? json_object_new_object() : value(v, at));
		json_object_put(key);
	}
	return o;
}

static struct json_object *repeated(const ProtobufCMessageDescriptor *parent, const ProtobufCFieldDescriptor *f, const char *items, size_t n)
{
	struct json_object *a;

	if (f->type == PROTOBUF_C_TYPE_MESSAGE && is_map(parent, f))
		return map((const ProtobufCMessage *const *)(const void *)items, n);
	a = json_object_new_array();
	for (size_t i = 0; i < n; i++)
		json_object_array_add(a, value(f, items + i * value_size(f)));
	return a;
}

static void camel(const char *name, char dst[128])
{
	size_t n = 0;
	bool upper = false;

	for (; *name && n < 127; name++) {
		if (*name == '_') {
			upper = true;
			continue;
		}
		dst[n++] = upper && *name >= 'a' && *name <= 'z' ? (char)(*name - 32) : *name;
		upper = false;
	}
	dst[n] = 0;
}

struct json_object *format_message(const ProtobufCMessage *m)
{
	const ProtobufCMessageDescriptor *d = m->descriptor;
	struct json_object *o;

	if (d == &google__protobuf__timestamp__descriptor)
		return timestamp((const Google__Protobuf__Timestamp *)m);
	if (d == &google__protobuf__value__descriptor)
		return any_value((const Google__Protobuf__Value *)m);
	if (d == &google__protobuf__struct__descriptor)
		return any_struct((const Google__Protobuf__Struct *)m);
	o = json_object_new_object();
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		const void *p = (const char *)m + f->offset;
		struct json_object *v;
		char name[128];

		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			size_t n = *(const size_t *)((const char *)m + f->quantifier_offset);

			if (!n)
				continue;
			v = repeated(d, f, *(const char *const *)p, n);
		} else {
			if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF ? *(const uint32_t *)((const char *)m + f->quantifier_offset) != f->id : is_default(f, p))
				continue;
			v = value(f, p);
		}
		camel(f->name, name);
		json_object_object_add(o, name, v);
	}
	return o;
}
