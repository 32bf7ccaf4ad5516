/* SPDX-License-Identifier: Apache-2.0 */
#include "pb.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

void *pb_xcalloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		abort();
	return p;
}

void pb_set(char **field, const char *value)
{
	char *old = *field;

	if (!value || !*value) {
		*field = (char *)protobuf_c_empty_string;
	} else {
		*field = strdup(value);
		if (!*field)
			abort();
	}
	if (old != protobuf_c_empty_string)
		free(old);
}

void pb_pack(const void *message, struct buf *out)
{
	const ProtobufCMessage *m = message;
	size_t n = protobuf_c_message_get_packed_size(m);

	if (buf_reserve(out, n))
		return;
	protobuf_c_message_pack(m, out->data + out->len);
	out->len += n;
	out->data[out->len] = 0;
}

void *pb_copy(const void *message)
{
	const ProtobufCMessage *m = message;
	_buf_ struct buf b = BUF_INIT;
	void *copy;

	if (!m)
		return NULL;
	pb_pack(m, &b);
	copy = b.failed ? NULL : protobuf_c_message_unpack(m->descriptor, NULL, b.len, b.data);
	if (!copy)
		abort();
	return copy;
}

void pb_free(void *message)
{
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
}

Google__Protobuf__Timestamp *pb_now(void)
{
	Google__Protobuf__Timestamp *t = pb_xcalloc(1, sizeof *t);
	struct timespec ts;

	google__protobuf__timestamp__init(t);
	clock_gettime(CLOCK_REALTIME, &ts);
	t->seconds = ts.tv_sec;
	t->nanos = (int32_t)ts.tv_nsec;
	return t;
}

const char *pb_annotation(Protect__Control__V1__AnnotationSpec *const *list, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i]->key, key))
			return list[i]->value;
	return NULL;
}
