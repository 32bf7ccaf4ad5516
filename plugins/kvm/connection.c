/* SPDX-License-Identifier: Apache-2.0 */
/* The libvirt connection, and its event loop on a thread of our own. */
#include "kvm.h"
#include "base/text.h"

#include <stdlib.h>

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

static void drop(struct kvm *k)
{
	kvm_events_stop(k);
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
	int r;

	k->conn = virConnectOpen(k->uri);
	if (!k->conn)
		return kvm_virt_error(err, "cannot connect to libvirt at '%s'", k->uri);
	r = kvm_events_start(k, err);
	if (r) {
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
