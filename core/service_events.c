/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <stdlib.h>

struct watch {
	struct events_watcher watcher;
	struct grpc_call *call;
};

static void event(struct events_watcher *w, const PB(WatchEventsReply) *reply)
{
	struct watch *watch = (struct watch *)w;

	/* One that does not read is sent away; it lists and watches again. */
	if (grpc_call_send(watch->call, &reply->base) == -EAGAIN)
		grpc_call_finish(watch->call, RPC_RESOURCE_EXHAUSTED, "events were not read fast enough; list and watch again");
}

void service_watch_events(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct watch *watch = pb_xcalloc(1, sizeof *watch);

	(void)m;
	watch->watcher.event = event;
	watch->call = call;
	grpc_call_set_user(call, watch);
	events_add(&SERVICE_DAEMON(call)->events, &watch->watcher);
}

void service_watch_events_closed(struct grpc_call *call)
{
	struct watch *watch = grpc_call_user(call);

	if (!watch)
		return;
	events_remove(&SERVICE_DAEMON(call)->events, &watch->watcher);
	free(watch);
}
