/* SPDX-License-Identifier: Apache-2.0 */
/* Reaping for a process that is a child subreaper (PR_SET_CHILD_SUBREAPER). Programs that detach from their starter, as QEMU does
 * under libvirt, become its children when the process between them ends. Left as zombies they still count as alive for whoever
 * polls them with kill(pid, 0): libvirt then waits 40 seconds for each. */
#ifndef BASE_REAP_H
#define BASE_REAP_H

/* Collects every ended child that was adopted, not started, by this process, and never one that code here forked and will wait
 * for: an adopted child lives in a session that is neither ours nor its own. Does not block; call it on SIGCHLD.
 * Returns how many it collected. */
int reap_orphans(void);

#endif
