/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's parts and what they share. One thread, one uv loop; nothing here blocks on what a workload does. */
#ifndef ZONE_AGENT_H
#define ZONE_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>
#include "base/error.h"
#include "base/path.h"
#include "edera/agent/v1/agent.pb-c.h"
#include "rpc/status.h"

#define ID_CAP 65            /* of a process or workload, NUL included */
#define MAX_PROCESSES 1024
#define MAX_WORKLOADS 256

struct process;
struct workload;
struct channel;
struct link;
struct ttrpc_conn;

struct agent {
	uv_loop_t *loop;
	/* how it was started */
	bool init;               /* PID 1 of a virtual machine, which is ours; else a process among others (--no-init) */
	char state_dir[PATH_CAP]; /* disks/, workloads/, crun/ */
	const char *channel_name; /* virtio:NAME | hvcN | unix:PATH */
	/* what it is */
	uint64_t instance, started_ms, boot_ms; /* boot_ms: from its start to its first answer */
	bool settled, configuring; /* the boot is over; a Configure is under way: what needs more than an answer waits for both */
	bool configured, cgroups; /* cgroups: version 2, ours to lay out */
	char fault[256];         /* "": none. Why this zone can be of no use; Configure fails with it */
	char **warnings;
	size_t n_warnings;
	/* the link to the host */
	struct channel *channel;
	struct link *link;
	struct ttrpc_conn *rpc;
	uint64_t epoch;          /* counts connections; answers to a call of an older one are dropped */
	/* what it looks after */
	struct process *processes;
	struct workload *workloads;
	size_t n_processes, n_workloads;
	bool starved;            /* a Read waits for the way to the host to clear */
	bool stopping;
};

/* Who waits for an answer. */
struct caller {
	uint64_t epoch;
	uint32_t stream;
};
void caller_reply(struct agent *, struct caller, const ProtobufCMessage *);
void caller_fail(struct agent *, struct caller, const struct edera_error *);

struct callers { struct caller *all; size_t n; };
void callers_add(struct callers *, struct caller);
void callers_reply(struct agent *, struct callers *, const ProtobufCMessage *); /* all of them, and empties the list */
void callers_fail(struct agent *, struct callers *, const struct edera_error *);

uint64_t now_ms(void); /* of the monotonic clock */
void agent_warn(struct agent *, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* logged, and shown by Status */
void agent_fault(struct agent *, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* the first one is kept */
bool agent_valid_id(const char *id);

/* service.c */
int service_start(struct agent *, struct edera_error *);
void service_feed(struct agent *, const uint8_t *data, size_t len);
void service_go_on(struct agent *); /* what calls waited for is done: serves those that came meanwhile */
bool service_writable(const struct agent *); /* the way to the host is not clogged */

/* channel.c: the byte stream to the host, opened when it appears and kept over its disconnects. */
struct channel *channel_new(struct agent *, const char *name, struct edera_error *);
void channel_send(struct channel *, const uint8_t *data, size_t len);
size_t channel_queued(const struct channel *);
void channel_flush_blocking(struct channel *, unsigned ms); /* before power off */

/* watch.c: one descriptor on the loop. */
struct watch;
typedef void (*watch_fn)(void *user, int events);
struct watch *watch_new(struct agent *, int fd, watch_fn, void *user); /* takes fd; NULL: failed, fd closed */
void watch_events(struct watch *, int events); /* UV_READABLE | UV_WRITABLE | UV_PRIORITIZED, or 0 */
int watch_fd(const struct watch *);
void watch_free(struct watch *); /* closes fd; accepts NULL */

/* reaper.c */
typedef void (*reaper_fn)(void *user, int wait_status);
int reaper_start(struct agent *, struct edera_error *);
void reaper_watch(pid_t, reaper_fn, void *user); /* a child that has already been reaped is reported on the next turn */
void reaper_forget(void *user);
void reaper_hold(void);   /* from here on statuses of unknown children are kept, */
void reaper_unhold(void); /* until every hold is undone */

/* child.c */
struct child {
	const char *const *argv;
	const char *const *envp;
	const char *cwd;        /* NULL: / */
	int fds[3];
	bool tty;               /* fds[0] becomes the controlling terminal of a session of its own */
	bool drop;              /* to uid, gid and groups */
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	size_t n_groups;
	const char *cgroup;     /* directory of cgroup2 to enter; NULL: stay */
};
/* The child has executed argv[0] (looked up in its PATH) when this returns 0. */
int child_start(const struct child *, pid_t *ret, struct edera_error *);

/* boot.c, modules.c, configure.c */
void boot_first(struct agent *);      /* blocks until the channel can be opened */
void boot_later(struct agent *);      /* sees to it that the boot goes on */
void boot_continue(struct agent *);   /* now; later calls do nothing */
int boot_settle(unsigned first_module); /* what its child runs */
/* Loads the listed modules from number `first` on, as far as one whose name holds `until` (NULL: all). Returns how many are loaded. */
unsigned modules_load_early(struct agent *, unsigned first, const char *until);
void configure(struct agent *, const ProtobufCMessage *, struct caller);
/* disks.c */
struct disk_wait;
/* Calls ready once the disk is there (0), or with -ENODEV after DISK_WAIT_MS; never from within. NULL: no memory. */
struct disk_wait *disk_wait(struct agent *, const char *serial, void (*ready)(void *user, int code), void *user);
/* The same for a directory that the host shares; it is mounted at target when ready says so. */
struct disk_wait *share_wait(struct agent *, const char *tag, const char *target, bool read_only, void (*ready)(void *user, int code), void *user);
void disk_wait_cancel(struct disk_wait *); /* accepts NULL */
#define DISK_WAIT_MS 15000
/* Mounts the disk read-only (as far as its filesystem is one of squashfs, erofs, ext4) at a directory, which is made. */
int disk_mount(struct agent *, const char *serial, const char *target, bool read_only, struct edera_error *);
/* cgroup.c */
void cgroup_setup(struct agent *);
#define CGROUP_EXEC "/sys/fs/cgroup/exec"
#define CGROUP_WORKLOADS "/sys/fs/cgroup/workloads"
uint64_t cgroup_number(const char *dir, const char *file, const char *key); /* key NULL: the whole file; 0 if it cannot be read */
/* pressure.c */
void pressure_watch(struct agent *); /* kills a workload when those that run do little but read their own text again */
/* metrics.c */
void metrics_reply(struct agent *, const ProtobufCMessage *, struct caller);
/* shutdown.c */
void agent_shutdown(struct agent *, unsigned grace_ms, bool reboot);

#endif
