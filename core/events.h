/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told when a zone or workload changes: WatchEvents' callers, and parts of the daemon. Loop thread only. */
#ifndef CORE_EVENTS_H
#define CORE_EVENTS_H

#include "pb.h"

struct events_watcher {
	struct events_watcher *prev, *next;
	void (*event)(struct events_watcher *, const Protect__Control__V1__WatchEventsReply *);
};

struct events {
	struct events_watcher *first;
};

void events_add(struct events *, struct events_watcher *);
void events_remove(struct events *, struct events_watcher *);
void events_zone(struct events *, PbZone *);
void events_workload(struct events *, PbWorkload *);

#endif
