/* SPDX-License-Identifier: Apache-2.0 */
/* The hypervisor kind: makes, runs and ends virtual machines. What runs inside one is not its business.
 *
 * Every op blocks, is called on a worker thread, one at a time per VM, and honours call->deadline_ns and call->cancel_fd as
 * far as its backend allows. `id` is the UUID the core gave in the spec; the backend must be able to find the VM by it
 * after a restart of the daemon, for VMs outlive the daemon. Strings and arrays are borrowed for the call. */
#ifndef EDERA_HYPERVISOR_H
#define EDERA_HYPERVISOR_H

#include <edera/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Capability bits. A bit claimed means the ops it names are there and work; an op of a bit not claimed is NULL. */
#define EDERA_HV_BLOCK_HOTPLUG (1ull << 0) /* disk_attach, disk_detach while running */
#define EDERA_HV_CONSOLE       (1ull << 1) /* vm_console */
#define EDERA_HV_ADOPT         (1ull << 2) /* VMs survive the daemon; vm_list finds them again */
#define EDERA_HV_PV_ONLY       (1ull << 3) /* needs no hardware virtualization */
#define EDERA_HV_OWN_KERNEL    (1ull << 4) /* a guest kernel of its own; absent for test backends that share the host's */
#define EDERA_HV_FS_SHARE      (1ull << 5) /* share_attach, share_detach while running */
#define EDERA_HV_PAUSE         (1ull << 6) /* later ABI minors append the ops of these and the following */
#define EDERA_HV_NET_HOTPLUG   (1ull << 7)
#define EDERA_HV_MEM_HOTPLUG   (1ull << 8)
#define EDERA_HV_VCPU_HOTPLUG  (1ull << 9)
#define EDERA_HV_SNAPSHOT      (1ull << 10)
#define EDERA_HV_VSOCK         (1ull << 11)

#define EDERA_DISK_READONLY 1u

struct edera_disk {
	const char *serial; /* [a-z0-9-]{1,20}, unique in the VM: how the guest tells disks apart */
	const char *path;   /* absolute host path of a raw image or block device; not to be chowned or relabelled */
	uint32_t flags;     /* EDERA_DISK_* */
	uint32_t reserved;  /* 0 */
};

#define EDERA_SHARE_READONLY 1u

/* A host directory that a guest mounts by its tag (virtiofs, 9p, whatever the backend and the guest agree on). */
struct edera_share {
	const char *tag;    /* [a-z0-9-]{1,31}, unique in the VM */
	const char *path;   /* absolute host directory; the guest must not be able to leave it */
	uint32_t flags;     /* EDERA_SHARE_* */
	uint32_t reserved;  /* 0 */
};

struct edera_vm_spec {
	uint32_t size;
	uint32_t flags;        /* 0 */
	const char *id;        /* UUID, 36 characters */
	const char *name;      /* the zone's name: for people, not unique */
	const char *kernel;    /* absolute path: bzImage or ELF vmlinux */
	const char *initrd;    /* absolute path */
	const char *cmdline;   /* the backend appends what its console and agent channel need */
	uint64_t memory_mib, max_memory_mib;
	uint32_t vcpus, max_vcpus;
	uint32_t uid;          /* user and group of the VM's processes: its own, shared with no other VM */
	uint32_t n_disks;
	const struct edera_disk *disks;
	const char *run_dir;   /* private directory of the VM (root, 0711): the core makes it, and removes it after vm_destroy. It is
	                          always EDERA_PATH_RUN/zones/<id>, so that ops which are given only an id find it, too */
};

enum edera_vm_state {
	EDERA_VM_UNKNOWN = 0,
	EDERA_VM_CREATED = 1, /* made, its first instruction not yet run */
	EDERA_VM_RUNNING = 2,
	EDERA_VM_STOPPED = 3, /* ended; vm_destroy frees what is left. A backend may also forget such a VM: -ENOENT */
};

struct edera_vm_info {
	uint32_t size;
	uint32_t state; /* enum edera_vm_state */
	uint32_t domid; /* above 0, unique among the VMs that exist, stable for the VM's life */
	uint32_t reserved;
	char id[40];
};

#define EDERA_VM_STOP_FORCE 1u /* end it now; without it: ask the guest (power button) */

struct edera_hypervisor_ops {
	uint32_t size;
	uint32_t reserved;

	/* Makes the VM, not yet running, so that console and channel can be opened before its first byte. On failure nothing
	 * of it is left. -EEXIST: a VM with this id exists. -ENOMEM: the host has not enough memory. */
	int (*vm_create)(void *inst, const struct edera_call *, const struct edera_vm_spec *, struct edera_vm_info *ret, struct edera_error *);
	/* Of a VM that runs already: success. */
	int (*vm_start)(void *inst, const struct edera_call *, const char *id, struct edera_error *);
	/* Returns when the request is made (polite) or the VM no longer runs (force). -ENOENT: no such VM. */
	int (*vm_stop)(void *inst, const struct edera_call *, const char *id, uint32_t flags, struct edera_error *);
	/* Ends the VM if it runs and frees all of it. Idempotent: an unknown id is success. */
	int (*vm_destroy)(void *inst, const struct edera_call *, const char *id, struct edera_error *);
	int (*vm_info)(void *inst, const struct edera_call *, const char *id, struct edera_vm_info *ret, struct edera_error *);
	/* Every VM of this daemon that the backend knows, in whatever state. ret is valid during cb; cb non-zero stops. */
	int (*vm_list)(void *inst, const struct edera_call *, int (*cb)(void *user, const struct edera_vm_info *), void *user, struct edera_error *);
	/* A connected, non-blocking, close-on-exec descriptor for the byte stream to the agent. The caller closes it. The stream may
	 * lose or cut bytes when it is closed and opened again: the agent's link layer is made for that. One at a time. */
	int (*vm_channel)(void *inst, const struct edera_call *, const char *id, int *ret_fd, struct edera_error *);
	/* The same for the serial console (both directions). */
	int (*vm_console)(void *inst, const struct edera_call *, const char *id, int *ret_fd, struct edera_error *);
	/* -EEXIST: the VM has a disk of this serial. -ENOENT: no such VM, or no such file. */
	int (*disk_attach)(void *inst, const struct edera_call *, const char *id, const struct edera_disk *, struct edera_error *);
	/* Idempotent: a serial that is not attached is success. */
	int (*disk_detach)(void *inst, const struct edera_call *, const char *id, const char *serial, struct edera_error *);
	/* EDERA_HV_FS_SHARE. The same for directories of the host; the zone agent is told the tag. */
	int (*share_attach)(void *inst, const struct edera_call *, const char *id, const struct edera_share *, struct edera_error *);
	int (*share_detach)(void *inst, const struct edera_call *, const char *id, const char *tag, struct edera_error *);
};

#ifdef __cplusplus
}
#endif
#endif
