/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a zone or a workload to change. Events are listened to from before the thing is made, then it is asked for once, so
 * that no change falls in between; a question now and then covers a daemon whose events come late or not at all. */
#ifndef CLI_WAIT_H
#define CLI_WAIT_H

#include "cli/cli.h"
#include "cli/progress.h"

struct waiter;

struct waiter *wait_open(struct cli *, struct edera_error *);
void wait_close(struct waiter *);

/* Until verdict says true of the zone (NULL: it is gone), or -EINTR on an interrupt. *ret may come out NULL; it is for _message_. */
int wait_zone(struct waiter *, const char *id, bool (*verdict)(const Protect__Control__V1__Zone *), struct progress *, Protect__Control__V1__Zone **ret, struct edera_error *);
int wait_workload(struct waiter *, const char *id, bool (*verdict)(const Protect__Control__V1__Workload *), Protect__Control__V1__Workload **ret, struct edera_error *);

#endif
