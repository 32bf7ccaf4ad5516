/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from outside become protobuf-c messages only through here: a walk over the wire format comes first, because
 * protobuf-c's unpacker recurses without limit, turns small input into much memory, and cuts strings at NUL. */
#ifndef RPC_MSG_H
#define RPC_MSG_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct rpc_msg_limits {
	size_t max_bytes;    /* of the whole message */
	uint32_t max_depth;  /* nested messages; the outermost is 1 */
	uint32_t max_fields; /* elements of all repeated fields, map entries and sub-messages together */
};

extern const struct rpc_msg_limits rpc_msg_default_limits; /* 4 MiB, depth 32, 65,536 */

/* 0, or -EPROTO with a sentence naming the field: truncated, of the wrong type, too deep, too many, a single sub-message given twice, a string that is not
 * UTF-8 or holds NUL. */
int rpc_msg_check(const ProtobufCMessageDescriptor *, const uint8_t *data, size_t len, const struct rpc_msg_limits *, struct edera_error *);
/* Check, then unpack; NULL limits = default. The caller frees with protobuf_c_message_free_unpacked(m, NULL). */
int rpc_msg_unpack(const ProtobufCMessageDescriptor *, const uint8_t *data, size_t len, const struct rpc_msg_limits *, ProtobufCMessage **ret, struct edera_error *);
/* Replaces bytes that are not UTF-8 in every string of a message we are about to send (strings are owned, writable memory). */
void rpc_msg_force_utf8(ProtobufCMessage *);

#endif
