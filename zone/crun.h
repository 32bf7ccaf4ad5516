/* SPDX-License-Identifier: Apache-2.0 */
/* Runs crun, one command at a time each in a child of its own, and hears what it says when it fails. */
#ifndef ZONE_CRUN_H
#define ZONE_CRUN_H

#include "agent.h"

/* err: NULL when crun succeeded. Until `done` returns, statuses of children nobody knows yet are kept (reaper_hold). */
typedef void (*crun_done)(void *user, const struct edera_error *err);
/* args: "create", ... ended by NULL. fds: for the container; borrowed. `done` is never called from within. */
int crun_start(struct agent *, const char *const *args, const int fds[3], crun_done, void *user, struct edera_error *);
/* The pid crun wrote into a file; 0 if there is none. */
pid_t crun_pid(const char *pid_file);
/* A socket on which crun leaves a terminal's master; its path must be short. Returns the listening descriptor. */
int crun_console_listen(const char *path, struct edera_error *);
/* After crun has ended: takes the master; closes the socket and removes its path. */
int crun_console_take(int listener, const char *path, int *ret_master, struct edera_error *);

#endif
