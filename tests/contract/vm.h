/* SPDX-License-Identifier: Apache-2.0 */
/* The hypervisor under test, and VMs made with it. Nothing here knows a backend: processes of a VM are those whose command line names its id. */
#ifndef CONTRACT_VM_H
#define CONTRACT_VM_H

#include "contract.h"

#define MAX_PIDS 64

extern const struct options *opt;
extern const struct edera_hypervisor_ops *ops;
extern uint64_t caps;
extern void *inst;

struct vm {
	char id[37], run_dir[PATH_CAP];
	struct edera_vm_spec spec;
	struct edera_disk disks[2];
};

int64_t now_ns(void);
struct edera_call *within(int ms); /* the calling thread's */
#define CALL within(120000)

/* A spec, and the directory the core makes for it. id NULL: a new one. */
int vm_prepare(struct vm *, const char *id);
int vm_make(struct vm *, struct edera_vm_info *, struct edera_error *);
int vm_make_running(struct vm *, struct edera_error *);
void vm_end(struct vm *); /* destroys what a test that failed left, too */
#define _vm_ __attribute__((cleanup(vm_end)))

int processes_of(const char *id, int pids[MAX_PIDS]);
bool no_processes(const char *id); /* at the latest a second from now */
/* A callback for vm_list. */
struct seen {
	const char *id;
	int n, total, stop_after;
};
int see(void *user, const struct edera_vm_info *);
int times_listed(const char *id); /* NULL: all */
/* Gone as far as the core can tell, within 5 s: an id that is no longer known, or one that is known to have stopped. */
bool ended(const char *id);
bool read_until(int fd, const char *text, int ms);
int make_disk(const char *name, char path[PATH_CAP]);
int count_entries(const char *dir);
void ask_agent(const char *id, struct agent_reply *ret); /* checks that it answers */

/* hypervisor_life.c, hypervisor_io.c */
extern const struct test life_tests[], io_tests[];
extern const size_t n_life_tests, n_io_tests;

#endif
