/* SPDX-License-Identifier: Apache-2.0 */
/* Starting child processes: every descriptor closed but those named, signal mask and dispositions reset, no code of ours
 * between fork and exec but system calls. */
#ifndef BASE_SPAWN_H
#define BASE_SPAWN_H

#include <sys/types.h>
#include <edera/plugin.h>

/* *ret_pidfd is the caller's: poll it, waitid(P_PIDFD), close it. ret_pid may be NULL. A failing exec is reported here. */
int spawn(const struct edera_spawn *, int *ret_pidfd, pid_t *ret_pid, struct edera_error *);
/* Waits for the end (blocking, or until deadline_ns / cancel_fd of `call`, then kills the child's process group and reaps).
 * Exit status as in a shell: 0..255, 128+N for signal N. Closes pidfd. -ETIMEDOUT or -ECANCELED if it had to be killed. */
int spawn_wait(int pidfd, pid_t pid, const struct edera_call *call, int *ret_status, struct edera_error *);
/* Looks a system user up without NSS plugins running in this process's threads for long; -ENOENT if there is none. */
int spawn_user(const char *name, uint32_t *ret_uid, uint32_t *ret_gid, struct edera_error *);

#endif
