/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a VM. Domains are transient: the daemon's database is the record, and a domain that ended is gone. */
#include "kvm.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <string.h>
#include <libvirt/virterror.h>

static int fill_info(virDomainPtr dom, struct edera_vm_info *ret, struct edera_error *err)
{
	struct edera_vm_info info = { .size = sizeof info };
	unsigned id = virDomainGetID(dom);
	int state, reason;

	if (virDomainGetUUIDString(dom, info.id) < 0 || virDomainGetState(dom, &state, &reason, 0) < 0)
		return kvm_virt_error(err, "cannot read the state of a virtual machine");
	/* libvirt's id is above that of every running domain, and kept when the daemon or libvirtd starts anew. */
	info.domid = id == (unsigned)-1 ? 0 : id;
	switch (state) {
	case VIR_DOMAIN_PAUSED: info.state = reason == VIR_DOMAIN_PAUSED_USER ? EDERA_VM_CREATED : EDERA_VM_RUNNING; break;
	case VIR_DOMAIN_SHUTDOWN:
	case VIR_DOMAIN_SHUTOFF:
	case VIR_DOMAIN_CRASHED: info.state = EDERA_VM_STOPPED; break;
	default: info.state = EDERA_VM_RUNNING;
	}
	*ret = info;
	return 0;
}

static int check_spec(const struct edera_vm_spec *s, struct edera_error *err)
{
	if (!text_is_uuid(s->id))
		return err_set(err, -EINVAL, "the id '%s' of a virtual machine is not a UUID", s->id);
	if (s->memory_mib < 16 || s->vcpus < 1)
		return err_set(err, -EINVAL, "a virtual machine needs at least 16 MiB of memory and one vCPU");
	return 0;
}

int kvm_vm_create(void *inst, const struct edera_call *call, const struct edera_vm_spec *s, struct edera_vm_info *ret, struct edera_error *err)
{
	struct kvm *k = inst;
	_conn_ virConnectPtr conn = NULL;
	_domain_ virDomainPtr dom = NULL;
	_buf_ struct buf xml = BUF_INIT;
	int r = check_spec(s, err);

	if (!r)
		r = kvm_call_expired(call, err);
	if (!r)
		r = kvm_connect(k, &conn, err);
	if (r)
		return r;
	dom = virDomainLookupByUUIDString(conn, s->id);
	if (dom)
		return err_set(err, -EEXIST, "a virtual machine with the id %s exists", s->id);
	r = kvm_domain_xml(k, s, &xml, err);
	if (r)
		return r;
	kvm_forget_end(k, s->id);
	dom = virDomainCreateXML(conn, (const char *)xml.data, VIR_DOMAIN_START_PAUSED);
	if (!dom)
		return kvm_virt_error(err, "cannot start QEMU for zone '%s'", s->name);
	r = fill_info(dom, ret, err);
	if (!r)
		r = kvm_call_expired(call, err);
	if (r)
		virDomainDestroy(dom);
	return r;
}

int kvm_vm_start(void *inst, const struct edera_call *call, const char *id, struct edera_error *err)
{
	_domain_ virDomainPtr dom = NULL;
	struct edera_vm_info info;
	int r = kvm_call_expired(call, err);

	if (!r)
		r = kvm_find(inst, id, &dom, err);
	if (!r)
		r = fill_info(dom, &info, err);
	if (!r && info.state == EDERA_VM_CREATED && virDomainResume(dom) < 0)
		r = kvm_virt_error(err, "cannot let the virtual machine %s run", id);
	return r;
}

/* It may end by itself between our look and our call; then there is nothing to do. */
static int end_domain(struct kvm *k, virDomainPtr dom, const char *id, struct edera_error *err)
{
	virErrorPtr e;

	kvm_note_end(k, id, KVM_END_ASKED);
	if (virDomainDestroy(dom) == 0)
		return 0;
	e = virGetLastError();
	if (e && (e->code == VIR_ERR_NO_DOMAIN || (e->code == VIR_ERR_OPERATION_INVALID && virDomainIsActive(dom) != 1)))
		return 0;
	kvm_forget_end(k, id);
	return kvm_virt_error(err, "cannot end the virtual machine %s", id);
}

int kvm_vm_stop(void *inst, const struct edera_call *call, const char *id, uint32_t flags, struct edera_error *err)
{
	struct kvm *k = inst;
	_domain_ virDomainPtr dom = NULL;
	int r = kvm_call_expired(call, err);

	if (!r)
		r = kvm_find(k, id, &dom, err);
	if (r)
		return r;
	if (flags & EDERA_VM_STOP_FORCE)
		return end_domain(k, dom, id, err);
	if (virDomainShutdownFlags(dom, VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN) < 0)
		return kvm_virt_error(err, "cannot press the power button of the virtual machine %s", id);
	return 0;
}

/* What libvirt leaves in its root, and the sockets of streams and shares in the VM's directory. */
static void remove_files(const struct kvm *k, const char *id)
{
	_closedir_ DIR *dir = NULL;
	char path[PATH_CAP];
	struct dirent *e;

	if (k->embedded && !path_format(path, NULL, "%s/log/qemu/" KVM_NAME_PREFIX "%s.log", k->root, id))
		unlink(path);
	if (!path_format(path, NULL, "%s/zones/%s", k->run_dir, id))
		dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (text_ends(e->d_name, ".sock"))
			unlinkat(dirfd(dir), e->d_name, 0);
}

int kvm_vm_destroy(void *inst, const struct edera_call *call, const char *id, struct edera_error *err)
{
	struct kvm *k = inst;
	_domain_ virDomainPtr dom = NULL;
	int r = kvm_call_expired(call, err);

	if (r)
		return r;
	if (!text_is_uuid(id))
		return 0;
	r = kvm_find(k, id, &dom, err);
	if (r && r != -ENOENT)
		return r;
	r = dom ? end_domain(k, dom, id, err) : 0;
	if (!r)
		remove_files(k, id);
	return r;
}

int kvm_vm_info(void *inst, const struct edera_call *call, const char *id, struct edera_vm_info *ret, struct edera_error *err)
{
	_domain_ virDomainPtr dom = NULL;
	int r = kvm_call_expired(call, err);

	if (!r)
		r = kvm_find(inst, id, &dom, err);
	return r ? r : fill_info(dom, ret, err);
}

int kvm_vm_list(void *inst, const struct edera_call *call, int (*cb)(void *, const struct edera_vm_info *), void *user, struct edera_error *err)
{
	struct kvm *k = inst;
	_conn_ virConnectPtr conn = NULL;
	virDomainPtr *all = NULL;
	int n, r = kvm_call_expired(call, err);

	if (!r)
		r = kvm_connect(k, &conn, err);
	if (r)
		return r;
	n = virConnectListAllDomains(conn, &all, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
	if (n < 0)
		return kvm_virt_error(err, "cannot list the virtual machines");
	for (int i = 0; i < n; i++) {
		struct edera_vm_info info;

		/* One that ends meanwhile is no longer one of them. */
		if (!r && kvm_is_ours(k, all[i]) && fill_info(all[i], &info, NULL) == 0)
			r = cb(user, &info) != 0;
		virDomainFree(all[i]);
	}
	free(all);
	return 0;
}
