/* SPDX-License-Identifier: Apache-2.0 */
/* A process the host asked for, with its three streams: one of Exec (in the zone or in a workload), or a workload's first. */
#ifndef ZONE_PROCESS_H
#define ZONE_PROCESS_H

#include "agent.h"


/* Makes the record; stdio is opened by process_open_io. -EEXIST, -ENOSPC. */
struct process *process_new(struct agent *, const char *id, struct workload *, struct edera_error *);
struct process *process_find(struct agent *, const char *id);
struct process *process_next(struct agent *, const struct process *after); /* after NULL: the first */
const char *process_id(const struct process *);
struct workload *process_workload(const struct process *);
/* Pipes, or /dev/null for a stdin not wanted. ret_child holds the child's ends, which the caller closes after the start. */
int process_open_io(struct process *, bool want_stdin, int ret_child[3], struct edera_error *);
/* A terminal: its slave for all three. */
int process_open_tty(struct process *, const Protect__Control__V1__TerminalSize *, int *ret_slave, struct edera_error *);
/* A terminal whose master came from crun. Takes fd. */
int process_adopt_tty(struct process *, int master, const Protect__Control__V1__TerminalSize *, struct edera_error *);
/* It runs: from now on its streams are read and its end is waited for. */
void process_started(struct process *, pid_t);
bool process_running(const struct process *);
pid_t process_pid(const struct process *);
bool process_ended(const struct process *);
void process_exit_info(const struct process *, Edera__Agent__V1__Exit *ret); /* of one that has ended */
void process_on_end(struct process *, void (*fn)(void *user), void *user); /* called once, when it has ended */
void process_kill(struct process *, int signal, bool session);
void process_free(struct process *); /* its waiters get NOT_FOUND */

bool processes_running(const struct agent *);
void processes_signal(struct agent *, int signal); /* all of them */
void process_serve_all(struct agent *); /* the way to the host is free again */
void process_list(struct agent *, Edera__Agent__V1__ListReply *);

/* exec.c */
bool exec_release(struct process *); /* whether it is being started just now; then it is freed when that is done */
void process_exec(struct agent *, const ProtobufCMessage *, struct caller);

void process_read(struct agent *, const ProtobufCMessage *, struct caller);
void process_write(struct agent *, const ProtobufCMessage *, struct caller);
void process_resize(struct agent *, const ProtobufCMessage *, struct caller);
void process_signal(struct agent *, const ProtobufCMessage *, struct caller);
void process_wait(struct agent *, const ProtobufCMessage *, struct caller);
void process_release(struct agent *, const ProtobufCMessage *, struct caller);

#endif
