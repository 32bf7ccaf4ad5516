/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

void events_add(struct events *e, struct events_watcher *w)
{
	w->prev = NULL;
	w->next = e->first;
	if (w->next)
		w->next->prev = w;
	e->first = w;
}

void events_remove(struct events *e, struct events_watcher *w)
{
	if (w->prev)
		w->prev->next = w->next;
	else
		e->first = w->next;
	if (w->next)
		w->next->prev = w->prev;
}

static void tell(struct events *e, const PB(WatchEventsReply) *reply)
{
	for (struct events_watcher *w = e->first, *next; w; w = next) {
		next = w->next;
		w->event(w, reply);
	}
}

void events_zone(struct events *e, PbZone *zone)
{
	PB(ZoneChangedEvent) changed = PROTECT__CONTROL__V1__ZONE_CHANGED_EVENT__INIT;
	PB(WatchEventsReply) reply = PROTECT__CONTROL__V1__WATCH_EVENTS_REPLY__INIT;

	changed.zone = zone;
	reply.event_case = PROTECT__CONTROL__V1__WATCH_EVENTS_REPLY__EVENT_ZONE_CHANGED;
	reply.zone_changed = &changed;
	tell(e, &reply);
}

void events_workload(struct events *e, PbWorkload *workload)
{
	PB(WorkloadChangedEvent) changed = PROTECT__CONTROL__V1__WORKLOAD_CHANGED_EVENT__INIT;
	PB(WatchEventsReply) reply = PROTECT__CONTROL__V1__WATCH_EVENTS_REPLY__INIT;

	changed.workload = workload;
	reply.event_case = PROTECT__CONTROL__V1__WATCH_EVENTS_REPLY__EVENT_WORKLOAD_CHANGED;
	reply.workload_changed = &changed;
	tell(e, &reply);
}
