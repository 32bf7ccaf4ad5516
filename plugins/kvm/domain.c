/* SPDX-License-Identifier: Apache-2.0 */
/* Finding our domains, and turning libvirt's errors into ours. */
#include "kvm.h"
#include "base/cleanup.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <libvirt/virterror.h>

static int code_of(const virError *e)
{
	if (e->message && strstr(e->message, "Cannot allocate memory"))
		return -ENOMEM;
	switch (e->code) {
	case VIR_ERR_NO_DOMAIN: return -ENOENT;
	case VIR_ERR_NO_MEMORY: return -ENOMEM;
	case VIR_ERR_DOM_EXIST: return -EEXIST;
	case VIR_ERR_INVALID_ARG:
	case VIR_ERR_XML_ERROR:
	case VIR_ERR_CONFIG_UNSUPPORTED: return -EINVAL;
	case VIR_ERR_OPERATION_TIMEOUT: return -ETIMEDOUT;
	case VIR_ERR_AUTH_FAILED:
	case VIR_ERR_ACCESS_DENIED: return -EACCES;
	default: return -EIO;
	}
}

/* Of a child that failed libvirt first gives the whole command line with its environment; what it said comes last. */
static const char *reason_of(const virErrorPtr e)
{
	const char *tail = e && e->message ? strstr(e->message, ") unexpected ") : NULL;

	return tail ? tail + 2 : e && e->message ? e->message : "libvirt gives no reason";
}

int kvm_virt_error(struct edera_error *err, const char *fmt, ...)
{
	virErrorPtr e = virGetLastError();
	int code = e && e->code ? code_of(e) : -EIO;
	char what[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return err_set(err, code, "%s: %s", what, reason_of(e));
}

int kvm_call_expired(const struct edera_call *call, struct edera_error *err)
{
	struct pollfd pf = { .fd = call ? call->cancel_fd : -1, .events = POLLIN };
	struct timespec now;

	if (!call)
		return 0;
	if (poll(&pf, 1, 0) > 0)
		return err_set(err, -ECANCELED, "the operation was given up by its caller");
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (call->deadline_ns && now.tv_sec * 1000000000ll + now.tv_nsec >= call->deadline_ns)
		return err_set(err, -ETIMEDOUT, "the operation ran out of time");
	return 0;
}

bool kvm_is_ours(const struct kvm *k, virDomainPtr dom)
{
	_free_ char *mark = virDomainGetMetadata(dom, VIR_DOMAIN_METADATA_ELEMENT, k->owner, VIR_DOMAIN_AFFECT_CURRENT);

	return mark != NULL;
}

int kvm_find(struct kvm *k, const char *id, virDomainPtr *ret, struct edera_error *err)
{
	_conn_ virConnectPtr conn = NULL;
	_domain_ virDomainPtr dom = NULL;
	int r = kvm_connect(k, &conn, err);

	if (r)
		return r;
	dom = virDomainLookupByUUIDString(conn, id);
	if (!dom || !kvm_is_ours(k, dom)) {
		virErrorPtr e = virGetLastError();

		if (!dom && e && e->code != VIR_ERR_NO_DOMAIN && e->code != VIR_ERR_INVALID_ARG)
			return kvm_virt_error(err, "cannot look up the virtual machine %s", id);
		return err_set(err, -ENOENT, "there is no virtual machine %s", id);
	}
	*ret = steal_ptr(dom);
	return 0;
}
