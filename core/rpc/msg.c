/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/msg.h"

#include <stdbool.h>
#include "base/text.h"

const struct rpc_msg_limits rpc_msg_default_limits = { .max_bytes = 4u << 20, .max_depth = 32, .max_fields = 65536 };

enum wire { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

#define MAX_FIELD_NUMBER ((1u << 29) - 1)
#define TAG_BYTES 5    /* protobuf-c reads no more than this of a tag or a length */
#define VARINT_BYTES 10
#define SEEN_WORDS 4   /* of 64 fields */

struct walk {
	const struct rpc_msg_limits *limits;
	uint32_t fields;
	struct edera_error *err;
};

/* One field occurrence: the bytes of its value. */
struct value {
	uint32_t number;
	enum wire wire;
	const uint8_t *start, *end;
};

/* The byte after the varint at p, or NULL if it does not end before `end` or within `max` bytes. */
static const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, unsigned max, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < max && p < end; i++, p++) {
		v |= (uint64_t)(*p & 0x7f) << (7 * i);
		if (!(*p & 0x80)) {
			*ret = v;
			return p + 1;
		}
	}
	return NULL;
}

static int refuse(struct walk *w, const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f, const char *why)
{
	return err_set(w->err, -EPROTO, "malformed message %s%s%s: %s", d->name, f ? ", field " : "", f ? f->name : "", why);
}

/* Reads tag and value at *p; advances *p. */
static const char *read_value(const uint8_t **p, const uint8_t *end, struct value *ret)
{
	uint64_t tag, len;
	const uint8_t *q = read_varint(*p, end, TAG_BYTES, &tag);

	if (!q || tag >> 3 == 0 || tag >> 3 > MAX_FIELD_NUMBER)
		return "bad field number";
	ret->number = (uint32_t)(tag >> 3);
	ret->wire = tag & 7;
	ret->start = q;
	switch (tag & 7) {
	case WIRE_VARINT:
		q = read_varint(q, end, VARINT_BYTES, &len);
		if (!q)
			return "truncated number";
		break;
	case WIRE_64BIT:
	case WIRE_32BIT:
		len = ret->wire == WIRE_64BIT ? 8 : 4;
		if ((size_t)(end - q) < len)
			return "truncated number";
		q += len;
		break;
	case WIRE_BYTES:
		q = read_varint(q, end, TAG_BYTES, &len);
		if (!q || len > (uint64_t)(end - q))
			return "truncated value";
		ret->start = q;
		q += len;
		break;
	default:
		return "groups and unknown wire types are not accepted";
	}
	ret->end = *p = q;
	return NULL;
}

static enum wire wire_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		return WIRE_32BIT;
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return WIRE_64BIT;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return WIRE_BYTES;
	default:
		return WIRE_VARINT;
	}
}

/* Elements of a packed field; false if it does not divide into whole ones. */
static bool count_packed(const struct value *v, enum wire wire, uint32_t *ret)
{
	size_t len = (size_t)(v->end - v->start), size = wire == WIRE_64BIT ? 8 : 4;
	uint32_t n = 0;
	uint64_t ignored;

	if (wire != WIRE_VARINT) {
		*ret = (uint32_t)(len / size);
		return len % size == 0;
	}
	for (const uint8_t *p = v->start; p < v->end; n++) {
		p = read_varint(p, v->end, VARINT_BYTES, &ignored);
		if (!p)
			return false;
	}
	*ret = n;
	return true;
}

static bool charge(struct walk *w, uint32_t n)
{
	if (n > w->limits->max_fields - w->fields)
		return false;
	w->fields += n;
	return true;
}

static int walk_message(struct walk *w, const ProtobufCMessageDescriptor *d, const uint8_t *p, const uint8_t *end, uint32_t depth);

static int walk_known(struct walk *w, const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f, const struct value *v, uint32_t depth)
{
	enum wire wire = wire_of(f->type);
	bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
	uint32_t n = repeated || f->type == PROTOBUF_C_TYPE_MESSAGE ? 1 : 0;

	if (v->wire != wire) {
		if (!repeated || v->wire != WIRE_BYTES)
			return refuse(w, d, f, "not the type of this field");
		if (!count_packed(v, wire, &n))
			return refuse(w, d, f, "truncated packed value");
	}
	if (!charge(w, n))
		return refuse(w, d, f, "too many elements");
	if (f->type == PROTOBUF_C_TYPE_STRING && !text_valid_utf8(v->start, (size_t)(v->end - v->start)))
		return refuse(w, d, f, "not UTF-8 text");
	if (f->type == PROTOBUF_C_TYPE_MESSAGE)
		return walk_message(w, f->descriptor, v->start, v->end, depth + 1);
	return 0;
}

/* Whether this field of the message has come before. */
static bool seen_before(uint64_t seen[SEEN_WORDS], const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f)
{
	size_t i = (size_t)(f - d->fields);
	uint64_t bit = 1ull << i % 64;
	bool before;

	if (i / 64 >= SEEN_WORDS)
		return true; /* none of our protocols has so many: to be on the safe side */
	before = seen[i / 64] & bit;
	seen[i / 64] |= bit;
	return before;
}

static int walk_message(struct walk *w, const ProtobufCMessageDescriptor *d, const uint8_t *p, const uint8_t *end, uint32_t depth)
{
	uint64_t seen[SEEN_WORDS] = { 0 };

	if (depth > w->limits->max_depth)
		return refuse(w, d, NULL, "nested too deep");
	while (p < end) {
		struct value v;
		const char *why = read_value(&p, end, &v);
		const ProtobufCFieldDescriptor *f;
		bool again;
		int r;

		if (why)
			return refuse(w, d, NULL, why);
		f = protobuf_c_message_descriptor_get_field(d, v.number);
		again = f && f->label != PROTOBUF_C_LABEL_REPEATED && seen_before(seen, d, f);
		/* Legal, but no encoder does it, and the unpacker's merging cannot be relied on. */
		if (again && f->type == PROTOBUF_C_TYPE_MESSAGE)
			return refuse(w, d, f, "given more than once");
		/* The unpacker notes each occurrence, so what it then drops counts as an element too. */
		if ((!f || again) && !charge(w, 1))
			return refuse(w, d, f, "too many elements");
		if (f && (r = walk_known(w, d, f, &v, depth)))
			return r;
	}
	return 0;
}

int rpc_msg_check(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t len, const struct rpc_msg_limits *limits, struct edera_error *err)
{
	struct walk w = { .limits = limits ? limits : &rpc_msg_default_limits, .err = err };

	if (len > w.limits->max_bytes)
		return err_set(err, -EPROTO, "malformed message %s: %zu bytes, at most %zu are accepted", d->name, len, w.limits->max_bytes);
	return len ? walk_message(&w, d, data, data + len, 1) : 0;
}

int rpc_msg_unpack(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t len, const struct rpc_msg_limits *limits, ProtobufCMessage **ret,
		   struct edera_error *err)
{
	ProtobufCMessage *m;
	int r = rpc_msg_check(d, data, len, limits, err);

	if (r)
		return r;
	m = protobuf_c_message_unpack(d, NULL, len, data);
	if (!m)
		return err_set(err, -EPROTO, "cannot unpack message %s of %zu bytes", d->name, len);
	*ret = m;
	return 0;
}

static void force_one(const ProtobufCFieldDescriptor *f, void *element)
{
	void *p = *(void **)element;

	if (p && f->type == PROTOBUF_C_TYPE_STRING)
		text_force_utf8(p);
	else if (p)
		rpc_msg_force_utf8(p);
}

void rpc_msg_force_utf8(ProtobufCMessage *m)
{
	uint8_t *base = (uint8_t *)m;

	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];

		if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			size_t n = *(size_t *)(base + f->quantifier_offset);
			void **elements = *(void ***)(base + f->offset);

			for (size_t k = 0; k < n; k++)
				force_one(f, &elements[k]);
		} else if (!(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || *(uint32_t *)(base + f->quantifier_offset) == f->id) {
			force_one(f, base + f->offset);
		}
	}
}
