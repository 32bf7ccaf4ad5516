/* SPDX-License-Identifier: Apache-2.0 */
/* The service of echo.proto on core/rpc. */
#ifndef TESTS_ECHO_SERVICE_H
#define TESTS_ECHO_SERVICE_H

#include "echo.pb-c.h"
#include "rpc/grpc.h"

struct echo_stats {
	unsigned live, begun, cancelled;
	uint64_t sent_bytes;   /* by ServerStream, accepted by grpc_call_send */
	uint64_t got_messages; /* by ClientStream and Bidi */
	bool hold;             /* Bidi pauses at its first message and stays so */
};

extern struct echo_stats echo_stats;
extern const struct grpc_service echo_service;

uint64_t echo_rss_kib(void);

#endif
