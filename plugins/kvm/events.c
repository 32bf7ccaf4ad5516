/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to domains becomes what happened to VMs. Callbacks run on the thread of libvirt's event loop. */
#include "kvm.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libvirt/libvirt-qemu.h>

struct kvm_end {
	struct kvm_end *next;
	enum kvm_end_kind kind;
	char id[VIR_UUID_STRING_BUFLEN];
};

enum kvm_end_kind kvm_forget_end(struct kvm *k, const char *id)
{
	enum kvm_end_kind kind = KVM_END_UNKNOWN;

	pthread_mutex_lock(&k->ends_lock);
	for (struct kvm_end **p = &k->ends, *e; (e = *p);) {
		if (id && strcmp(e->id, id)) {
			p = &e->next;
			continue;
		}
		kind = e->kind; /* the newest is in front */
		*p = e->next;
		free(e);
	}
	pthread_mutex_unlock(&k->ends_lock);
	return kind;
}

void kvm_note_end(struct kvm *k, const char *id, enum kvm_end_kind kind)
{
	struct kvm_end *e = calloc(1, sizeof *e);

	if (!e)
		return; /* at worst, an end gets the wrong name */
	e->kind = kind;
	snprintf(e->id, sizeof e->id, "%s", id);
	pthread_mutex_lock(&k->ends_lock);
	e->next = k->ends;
	k->ends = e;
	pthread_mutex_unlock(&k->ends_lock);
}

/* Ours, or with a name that looks so: the daemon knows its VMs by id. */
static bool names_vm(virDomainPtr dom, char id[VIR_UUID_STRING_BUFLEN])
{
	const char *name = virDomainGetName(dom);

	return name && text_starts(name, KVM_NAME_PREFIX) && virDomainGetUUIDString(dom, id) == 0;
}

static void report_end(struct kvm *k, const char *id, int detail)
{
	static const char *const words[] = {
		[VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN] = "the guest powered off",
		[VIR_DOMAIN_EVENT_STOPPED_DESTROYED] = "it was destroyed",
		[VIR_DOMAIN_EVENT_STOPPED_CRASHED] = "the guest crashed",
		[VIR_DOMAIN_EVENT_STOPPED_FAILED] = "QEMU ended unexpectedly",
	};
	enum edera_vm_event what = EDERA_VM_EVENT_STOPPED;
	const char *why = detail >= 0 && (size_t)detail < sizeof words / sizeof *words && words[detail] ? words[detail] : "it ended";

	switch (kvm_forget_end(k, id)) {
	case KVM_END_ASKED:
		why = words[VIR_DOMAIN_EVENT_STOPPED_DESTROYED];
		break;
	case KVM_END_REBOOT:
		what = EDERA_VM_EVENT_CRASHED;
		why = "the guest's kernel panicked, or rebooted by itself";
		break;
	case KVM_END_UNKNOWN:
		if (detail == VIR_DOMAIN_EVENT_STOPPED_CRASHED || detail == VIR_DOMAIN_EVENT_STOPPED_FAILED)
			what = EDERA_VM_EVENT_CRASHED;
	}
	k->host->vm_event(k->host->core, id, what, why);
}

static int on_lifecycle(virConnectPtr conn, virDomainPtr dom, int event, int detail, void *user)
{
	char id[VIR_UUID_STRING_BUFLEN];
	struct kvm *k = user;

	(void)conn;
	if (!names_vm(dom, id))
		return 0;
	if (event == VIR_DOMAIN_EVENT_CRASHED)
		k->host->vm_event(k->host->core, id, EDERA_VM_EVENT_CRASHED, "the guest's kernel panicked");
	if (event == VIR_DOMAIN_EVENT_RESUMED)
		k->host->vm_event(k->host->core, id, EDERA_VM_EVENT_STARTED, "");
	if (event == VIR_DOMAIN_EVENT_STOPPED)
		report_end(k, id, detail);
	return 0;
}

/* QEMU says why it shuts down; libvirt's own events do not pass that on. A zone's kernel runs with panic=-1. */
static void on_shutdown(virConnectPtr conn, virDomainPtr dom, const char *event, long long seconds, unsigned micros, const char *details, void *user)
{
	char id[VIR_UUID_STRING_BUFLEN];

	(void)conn;
	(void)event;
	(void)seconds;
	(void)micros;
	if (details && strstr(details, "\"guest-reset\"") && names_vm(dom, id))
		kvm_note_end(user, id, KVM_END_REBOOT);
}

int kvm_events_start(struct kvm *k, struct edera_error *err)
{
	k->events = virConnectDomainEventRegisterAny(k->conn, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
	                                             VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle), k, NULL);
	if (k->events < 0)
		return kvm_virt_error(err, "cannot watch the domains of libvirt at '%s'", k->uri);
	k->shutdowns = virConnectDomainQemuMonitorEventRegister(k->conn, NULL, "SHUTDOWN", on_shutdown, k, NULL, 0);
	return k->shutdowns < 0 ? kvm_virt_error(err, "cannot watch QEMU's events through libvirt at '%s'", k->uri) : 0;
}

void kvm_events_stop(struct kvm *k)
{
	if (k->conn && k->events >= 0)
		virConnectDomainEventDeregisterAny(k->conn, k->events);
	if (k->conn && k->shutdowns >= 0)
		virConnectDomainQemuMonitorEventDeregister(k->conn, k->shutdowns);
	k->events = k->shutdowns = -1;
}
