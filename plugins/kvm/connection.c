/* SPDX-License-Identifier: Apache-2.0 */
/* The libvirt connection, its event loop on a thread of our own, and the events of domains. */
#include "kvm.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *loop(void *arg)
{
	struct kvm *k = arg;

	while (!atomic_load(&k->ending))
		virEventRunDefaultImpl();
	return NULL;
}

int kvm_loop_start(struct kvm *k, struct edera_error *err)
{
	int r;

	atomic_store(&k->ending, false);
	r = pthread_create(&k->loop, NULL, loop, k);
	if (r)
		return err_errno(err, -r, "cannot start the thread of libvirt's event loop");
	k->loop_runs = true;
	return 0;
}

static void wake(int timer, void *user)
{
	(void)user;
	virEventRemoveTimeout(timer);
}

void kvm_loop_stop(struct kvm *k)
{
	if (!k->loop_runs)
		return;
	atomic_store(&k->ending, true);
	virEventAddTimeout(0, wake, NULL, NULL);
	pthread_join(k->loop, NULL);
	k->loop_runs = false;
}

struct kvm_end {
	struct kvm_end *next;
	char id[VIR_UUID_STRING_BUFLEN];
};

bool kvm_forget_end(struct kvm *k, const char *id)
{
	bool found = false;

	pthread_mutex_lock(&k->lock);
	for (struct kvm_end **p = &k->ends, *e; (e = *p);) {
		if (id && strcmp(e->id, id)) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		free(e);
		found = true;
	}
	pthread_mutex_unlock(&k->lock);
	return found;
}

void kvm_expect_end(struct kvm *k, const char *id)
{
	struct kvm_end *e = calloc(1, sizeof *e);

	if (!e)
		return; /* at worst, an end is called a crash */
	snprintf(e->id, sizeof e->id, "%s", id);
	pthread_mutex_lock(&k->lock);
	e->next = k->ends;
	k->ends = e;
	pthread_mutex_unlock(&k->lock);
}

static const char *stop_reason(int detail)
{
	switch (detail) {
	case VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN: return "the guest powered off";
	case VIR_DOMAIN_EVENT_STOPPED_DESTROYED: return "it was destroyed";
	case VIR_DOMAIN_EVENT_STOPPED_CRASHED: return "the guest crashed";
	case VIR_DOMAIN_EVENT_STOPPED_FAILED: return "QEMU ended unexpectedly";
	default: return "it ended";
	}
}

/* On the event thread. */
static int on_lifecycle(virConnectPtr conn, virDomainPtr dom, int event, int detail, void *user)
{
	const char *name = virDomainGetName(dom);
	struct kvm *k = user;
	enum edera_vm_event what;
	char id[VIR_UUID_STRING_BUFLEN];

	(void)conn;
	if (!name || !text_starts(name, KVM_NAME_PREFIX) || virDomainGetUUIDString(dom, id) < 0)
		return 0;
	if (event == VIR_DOMAIN_EVENT_CRASHED)
		k->host->vm_event(k->host->core, id, EDERA_VM_EVENT_CRASHED, "the guest's kernel panicked");
	if (event == VIR_DOMAIN_EVENT_RESUMED)
		k->host->vm_event(k->host->core, id, EDERA_VM_EVENT_STARTED, "");
	if (event != VIR_DOMAIN_EVENT_STOPPED)
		return 0;
	if (kvm_forget_end(k, id))
		detail = VIR_DOMAIN_EVENT_STOPPED_DESTROYED;
	what = detail == VIR_DOMAIN_EVENT_STOPPED_CRASHED || detail == VIR_DOMAIN_EVENT_STOPPED_FAILED ? EDERA_VM_EVENT_CRASHED
	                                                                                               : EDERA_VM_EVENT_STOPPED;
	k->host->vm_event(k->host->core, id, what, stop_reason(detail));
	return 0;
}

static void drop(struct kvm *k)
{
	if (k->conn && k->events >= 0)
		virConnectDomainEventDeregisterAny(k->conn, k->events);
	k->events = -1;
	if (k->conn)
		virConnectClose(k->conn);
	k->conn = NULL;
}

/* libvirt takes up domains it finds running on threads of its own, and one that is destroyed before its thread is done vanishes
 * without an event. That thread holds the domain's job, and this harmless question has to wait for it. */
static void wait_for_reconnects(virConnectPtr conn)
{
	virDomainPtr *all = NULL;
	int n = virConnectListAllDomains(conn, &all, VIR_CONNECT_LIST_DOMAINS_ACTIVE);

	for (int i = 0; i < n; i++) {
		const char *name = virDomainGetName(all[i]);
		virTypedParameterPtr params = NULL;
		int count = 0;

		if (name && text_starts(name, KVM_NAME_PREFIX) && virDomainGetPerfEvents(all[i], &params, &count, 0) == 0)
			virTypedParamsFree(params, count);
		virDomainFree(all[i]);
	}
	free(all);
}

static int open_connection(struct kvm *k, struct edera_error *err)
{
	k->conn = virConnectOpen(k->uri);
	if (!k->conn)
		return kvm_virt_error(err, "cannot connect to libvirt at '%s'", k->uri);
	k->events = virConnectDomainEventRegisterAny(k->conn, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
	                                             VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle), k, NULL);
	if (k->events < 0) {
		int r = kvm_virt_error(err, "cannot watch the domains of libvirt at '%s'", k->uri);

		drop(k);
		return r;
	}
	if (!k->embedded)
		virConnectSetKeepAlive(k->conn, 5, 3);
	wait_for_reconnects(k->conn);
	return 0;
}

int kvm_connect(struct kvm *k, virConnectPtr *ret, struct edera_error *err)
{
	int r = 0;

	pthread_mutex_lock(&k->lock);
	if (k->conn && virConnectIsAlive(k->conn) == 0)
		drop(k);
	if (!k->conn)
		r = open_connection(k, err);
	if (!r) {
		virConnectRef(k->conn);
		*ret = k->conn;
	}
	pthread_mutex_unlock(&k->lock);
	return r;
}

void kvm_disconnect(struct kvm *k)
{
	pthread_mutex_lock(&k->lock);
	drop(k);
	pthread_mutex_unlock(&k->lock);
}
