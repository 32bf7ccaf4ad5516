/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the KVM plugin share: one instance, one libvirt connection. */
#ifndef KVM_H
#define KVM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <libvirt/libvirt.h>
#include <edera/hypervisor.h>
#include "base/buf.h"
#include "base/error.h"
#include "base/path.h"

#define KVM_NAME_PREFIX "zone-" /* a domain's name is this and its UUID, for names of zones repeat */
#define KVM_CHANNEL "dev.edera.agent.0"
#define KVM_NODE "/dev/kvm"
#define KVM_LIBVIRTD_DIR "/var/lib/libvirt/qemu" /* libvirtd's own, which Debian closes to all but one group */

struct kvm {
	const struct edera_host *host;
	const char *machine, *emulator;
	const char *run_dir;     /* the daemon's; VMs are below it */
	bool embedded;           /* libvirt runs inside this process, in `root` */
	bool hardware;           /* domains use KVM, else software emulation */
	uint32_t qemu_gid;       /* the group QEMU must have for /dev/kvm or libvirtd's directories; 0 = none, the VM's own */
	char root[PATH_CAP];
	char uri[PATH_CAP + 32];
	char owner[3 * 256];     /* XML namespace that marks this daemon's domains */
	pthread_t loop;
	bool loop_runs;
	atomic_bool ending;
	pthread_mutex_t lock;    /* over conn and the callback ids */
	virConnectPtr conn;
	int events, shutdowns;   /* callback ids, -1 = none */
	pthread_mutex_t ends_lock;
	struct kvm_end *ends;    /* VMs of whose end more is known than libvirt will report */
};

/* accel.c: decides between KVM and software emulation. choice: "auto", "kvm" or "tcg". */
int kvm_choose_accelerator(const char *choice, bool *ret_hardware, struct edera_error *);
/* The group that lets any user open the node or directory, 0 if none is needed (or it is not there). */
uint32_t kvm_group_of(const char *path, bool directory);
/* The user whose view of /dev/kvm agrees with what a probing QEMU finds there. */
const char *kvm_probe_user(void);

/* connection.c */
int kvm_loop_start(struct kvm *, struct edera_error *);
void kvm_loop_stop(struct kvm *);
/* A reference to a live connection; the caller closes it. Opens it again if libvirtd went away. */
int kvm_connect(struct kvm *, virConnectPtr *ret, struct edera_error *);
void kvm_disconnect(struct kvm *);

/* events.c: k->conn is open. */
int kvm_events_start(struct kvm *, struct edera_error *);
void kvm_events_stop(struct kvm *);
/* What libvirt reports of an end is not enough: a domain it was told to destroy counts as crashed when QEMU's end overtakes the
 * order, and one whose kernel panicked, and so rebooted, as shut down. Noted before that end is reported, forgotten when a VM of the
 * id is made (again). */
enum kvm_end_kind { KVM_END_UNKNOWN, KVM_END_ASKED, KVM_END_REBOOT };
void kvm_note_end(struct kvm *, const char *id, enum kvm_end_kind);
enum kvm_end_kind kvm_forget_end(struct kvm *, const char *id); /* what was noted first; NULL: forgets all */

/* root.c: where libvirt is, and the directory an embedded one lives in. */
#define KVM_EMBED_URI "qemu:///embed" /* with or without ?root=DIR */
int kvm_set_uri(struct kvm *, const char *uri, struct edera_error *);
int kvm_root_prepare(struct kvm *, struct edera_error *);

/* domain.c: finding domains, and what all ops need. */
int kvm_find(struct kvm *, const char *id, virDomainPtr *ret, struct edera_error *); /* -ENOENT: none of ours */
bool kvm_is_ours(const struct kvm *, virDomainPtr);
int kvm_virt_error(struct edera_error *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int kvm_call_expired(const struct edera_call *, struct edera_error *); /* 0, -ETIMEDOUT or -ECANCELED */
static inline void kvm_domain_free(virDomainPtr *d) { if (*d) virDomainFree(*d); }
static inline void kvm_conn_close(virConnectPtr *c) { if (*c) virConnectClose(*c); }
#define _domain_ __attribute__((cleanup(kvm_domain_free)))
#define _conn_ __attribute__((cleanup(kvm_conn_close)))

/* xml.c */
int kvm_domain_xml(const struct kvm *, const struct edera_vm_spec *, struct buf *ret, struct edera_error *);
int kvm_disk_xml(const struct edera_disk *, unsigned index, struct buf *ret, struct edera_error *);
int kvm_share_xml(const struct edera_share *, const char *socket, unsigned slot, struct buf *ret, struct edera_error *); /* slot: of the bridge; 0: there is none */
#define KVM_BRIDGE "pci-bridge" /* what a q35 has for devices plugged in later, as libvirt writes their places: */
#define KVM_BRIDGE_ADDRESS "<address type='pci' domain='0x0000' bus='0x02' slot='0x%02x' function='0x0'/>"
#define KVM_BRIDGE_SLOTS 32u /* the first is not to be had */
void kvm_disk_target(unsigned index, char dst[8]); /* sda, sdb, ... sdz, sdaa, ... */
#define KVM_MAX_DISKS 200u

/* vm.c, disk.c, share.c, stream.c: the op table */
int kvm_vm_create(void *, const struct edera_call *, const struct edera_vm_spec *, struct edera_vm_info *, struct edera_error *);
int kvm_vm_start(void *, const struct edera_call *, const char *id, struct edera_error *);
int kvm_vm_stop(void *, const struct edera_call *, const char *id, uint32_t flags, struct edera_error *);
int kvm_vm_destroy(void *, const struct edera_call *, const char *id, struct edera_error *);
int kvm_vm_info(void *, const struct edera_call *, const char *id, struct edera_vm_info *, struct edera_error *);
int kvm_vm_list(void *, const struct edera_call *, int (*cb)(void *, const struct edera_vm_info *), void *user, struct edera_error *);
int kvm_vm_channel(void *, const struct edera_call *, const char *id, int *ret_fd, struct edera_error *);
int kvm_vm_console(void *, const struct edera_call *, const char *id, int *ret_fd, struct edera_error *);
int kvm_disk_attach(void *, const struct edera_call *, const char *id, const struct edera_disk *, struct edera_error *);
int kvm_disk_detach(void *, const struct edera_call *, const char *id, const char *serial, struct edera_error *);
int kvm_share_attach(void *, const struct edera_call *, const char *id, const struct edera_share *, struct edera_error *);
int kvm_share_detach(void *, const struct edera_call *, const char *id, const char *tag, struct edera_error *);

#endif
