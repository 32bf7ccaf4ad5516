/* SPDX-License-Identifier: Apache-2.0 */
/* stdin from an RPC to a process in a zone: what the process's queue does not take is held, and the RPC is not read meanwhile. */
#ifndef CORE_FEED_H
#define CORE_FEED_H

#include "agent/agent_client.h"
#include "base/buf.h"
#include "rpc/grpc.h"

struct feed {
	struct grpc_call *call;
	struct buf held;
	bool close_after, paused;
};

/* False: it was held and the call is paused; feed_go_on when the process is writable. A process that is gone swallows everything. */
bool feed_write(struct feed *, struct agent_process *, const void *data, size_t len, bool close_after);
bool feed_go_on(struct feed *, struct agent_process *); /* true: nothing is held any more; the call is read again */
void feed_clear(struct feed *);

#endif
