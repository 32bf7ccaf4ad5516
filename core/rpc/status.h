/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes shared by gRPC and ttrpc. */
#ifndef RPC_STATUS_H
#define RPC_STATUS_H

#include "base/error.h"

enum rpc_status {
	RPC_OK = 0, RPC_CANCELLED = 1, RPC_UNKNOWN = 2, RPC_INVALID_ARGUMENT = 3, RPC_DEADLINE_EXCEEDED = 4, RPC_NOT_FOUND = 5,
	RPC_ALREADY_EXISTS = 6, RPC_PERMISSION_DENIED = 7, RPC_RESOURCE_EXHAUSTED = 8, RPC_FAILED_PRECONDITION = 9, RPC_ABORTED = 10,
	RPC_OUT_OF_RANGE = 11, RPC_UNIMPLEMENTED = 12, RPC_INTERNAL = 13, RPC_UNAVAILABLE = 14, RPC_DATA_LOSS = 15,
	RPC_UNAUTHENTICATED = 16,
};

/* -ENOENT <-> NOT_FOUND, -EEXIST <-> ALREADY_EXISTS, -EINVAL <-> INVALID_ARGUMENT, -EBUSY <-> FAILED_PRECONDITION, and so on; what
 * has no pair becomes UNKNOWN / -EIO. */
enum rpc_status rpc_status_of_errno(int code);
int rpc_errno_of_status(enum rpc_status);
const char *rpc_status_name(enum rpc_status); /* "NOT_FOUND" */

#endif
