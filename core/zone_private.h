/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that make up a zone (zone.c, zone_agent.c, zone_console.c, zone_recover.c). */
#ifndef CORE_ZONE_PRIVATE_H
#define CORE_ZONE_PRIVATE_H

#include "zone.h"

struct zone *zone_new(struct daemon *, PbZone *pb, uint32_t uid, struct edera_error *); /* takes pb on success */
void zone_set_state(struct zone *, PB(ZoneState));
void zone_changed(struct zone *); /* saves and tells */
void zone_arm_deadline(struct zone *, uint64_t ms, void (*)(uv_timer_t *));
void zone_stop_deadline(struct zone *);
void zone_set_error(struct zone *, const char *message); /* into the record; the state is the caller's business */
void zone_await_ready(struct zone *); /* fail unless READY within the configured time */

bool zone_has_addons(const struct zone *); /* a disk with its kernel's modules */

/* zone_agent.c */
void zone_agent_open(struct zone *, int channel_fd); /* fd taken; -1: open one */
void zone_agent_close(struct zone *);
/* zone_console.c */
void zone_console_open(struct zone *, int fd); /* fd taken */
void zone_console_close(struct zone *);
/* zone_reopen.c: asks the backend again for the console (if none is open) and the channel (if the agent has none) */
void zone_reopen(struct zone *);

#endif
