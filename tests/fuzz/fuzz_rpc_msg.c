/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from outside as messages of the protocols we speak. The first byte chooses the message. What the check lets pass must unpack, within memory that
 * the limits account for, and be sendable again once its text is corrected. */
#include <stdlib.h>
#include <string.h>
#include "base/cleanup.h"
#include "edera/node/v1/node.pb-c.h"
#include "protect/control/v1/control.pb-c.h"
#include "rpc/msg.h"
#include "ttrpc.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY_MAX (256u << 20)

struct meter { size_t used; };

static void *metered_alloc(void *user, size_t size)
{
	struct meter *meter = user;

	meter->used += size;
	if (meter->used > MEMORY_MAX)
		abort();
	return malloc(size);
}

static void metered_free(void *user, void *p) { free(p); }

static const ProtobufCMessageDescriptor *choose(unsigned n)
{
	static const ProtobufCServiceDescriptor *const services[] = { &protect__control__v1__control_service__descriptor, &edera__node__v1__node_service__descriptor };
	static const ProtobufCMessageDescriptor *const others[] = {
		&protect__control__v1__zone__descriptor, &protect__control__v1__workload__descriptor, &protect__control__v1__metric_node__descriptor,
		&ttrpc__request__descriptor, &ttrpc__response__descriptor,
	};

	if (n < ARRAY_SIZE(others))
		return others[n];
	n -= ARRAY_SIZE(others);
	for (size_t i = 0; i < ARRAY_SIZE(services); i++) {
		if (n < 2 * services[i]->n_methods)
			return n % 2 ? services[i]->methods[n / 2].output : services[i]->methods[n / 2].input;
		n -= 2 * services[i]->n_methods;
	}
	return others[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct meter meter = { 0 };
	ProtobufCAllocator allocator = { metered_alloc, metered_free, &meter };
	const ProtobufCMessageDescriptor *d;
	ProtobufCMessage *m;
	_free_ uint8_t *packed = NULL;
	size_t len;

	if (size < 1)
		return 0;
	d = choose(data[0]);
	if (rpc_msg_check(d, data + 1, size - 1, NULL, NULL))
		return 0;
	m = protobuf_c_message_unpack(d, &allocator, size - 1, data + 1);
	if (!m)
		abort();
	rpc_msg_force_utf8(m);
	len = protobuf_c_message_get_packed_size(m);
	packed = malloc(len + 1);
	if (protobuf_c_message_pack(m, packed) != len || rpc_msg_check(d, packed, len, NULL, NULL))
		abort();
	protobuf_c_message_free_unpacked(m, &allocator);
	return 0;
}
