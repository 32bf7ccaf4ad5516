/* SPDX-License-Identifier: Apache-2.0 */
/* What survives the daemon: zones and workloads, as the control protocol's own messages, in SQLite (WAL). Written on the loop thread:
 * with synchronous=NORMAL a commit is a write into the page cache, so a kill of the daemon loses nothing, and a loss of
 * power only what ran in VMs that are gone with it. */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include <stdint.h>
#include "base/error.h"
#include "pb.h"

struct state;

/* Opens or creates, migrates to this program's schema; a database of a newer one is refused. */
struct state *state_open(const char *path, struct edera_error *);
void state_close(struct state *);

int state_put_zone(struct state *, const PbZone *, uint32_t uid, struct edera_error *);
int state_delete_zone(struct state *, const char *id, struct edera_error *);
int state_each_zone(struct state *, int (*cb)(void *user, PbZone *zone, uint32_t uid), void *user, struct edera_error *); /* cb owns the zone */
int state_put_workload(struct state *, const PbWorkload *, struct edera_error *);
int state_delete_workload(struct state *, const char *id, struct edera_error *);
int state_each_workload(struct state *, int (*cb)(void *user, PbWorkload *), void *user, struct edera_error *); /* cb owns it */

#endif
