/* SPDX-License-Identifier: Apache-2.0 */
/* Between agent_client.c and agent_process.c. */
#ifndef AGENT_AGENT_INTERNAL_H
#define AGENT_AGENT_INTERNAL_H

#include "agent/agent_client.h"

struct agent_pending; /* a call that was not answered yet */

/* As agent_call; NULL when there is no memory (then nothing is called back). The handle is valid until the answer. */
struct agent_pending *agent_call_start(struct agent_client *, const char *method, const ProtobufCMessage *request, uint64_t timeout_ms, agent_answer, void *user);
void agent_call_cancel(struct agent_pending *); /* no answer comes; accepts NULL */

/* The client keeps its processes in a list, to end them when the zone was rebooted or the client goes. */
struct agent_process_link { struct agent_process_link *prev, *next; };
void agent_client_add_process(struct agent_client *, struct agent_process_link *);
void agent_client_remove_process(struct agent_client *, struct agent_process_link *);
/* In agent_process.c: ends it with this error, once. */
void agent_process_fail(struct agent_process_link *, const struct edera_error *);

#endif
