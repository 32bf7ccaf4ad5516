/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ZONE_H
#define CLI_ZONE_H

#include "cli/cli.h"

struct waiter;

extern const struct command verb_zone_launch, verb_zone_list, verb_zone_watch, verb_zone_logs, verb_zone_exec, verb_zone_attach, verb_zone_destroy, verb_zone_resolve, verb_zone_metrics, verb_zone_update_resources;

/* view.c: a Zone as a row */
extern const struct list_view zone_view;
const char *zone_name(const Protect__Control__V1__Zone *);
Protect__Control__V1__ZoneState zone_state(const Protect__Control__V1__Zone *);
/* Why it failed, or "". */
const char *zone_failure(const Protect__Control__V1__Zone *);
/* All zones the daemon knows; rows point into replies. */
int zone_collect(struct cli *, struct replies *, struct list *, struct edera_error *);
/* destroy.c: and sees it gone, unless the waiter is NULL. -EIO when it could not be. */
int zone_destroy(struct cli *, struct waiter *, const char *id, struct edera_error *);

#endif
