/* SPDX-License-Identifier: Apache-2.0 */
/* Disks of a running VM. libvirt's own description of the domain is the record of which are there: a disk's alias is its serial. */
#include "kvm.h"
#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Text in libvirt's XML is escaped, so that nothing a user named can look like these elements. */
static bool has_serial(const char *xml, const char *serial)
{
	char alias[64];

	snprintf(alias, sizeof alias, "<alias name='ua-%s'/>", serial);
	return strstr(xml, alias) != NULL;
}

static unsigned free_index(const char *xml)
{
	char element[64], target[8];
	unsigned i;

	for (i = 0; i < KVM_MAX_DISKS; i++) {
		kvm_disk_target(i, target);
		snprintf(element, sizeof element, "<target dev='%s' bus='scsi'/>", target);
		if (!strstr(xml, element))
			break;
	}
	return i;
}

static int describe(virDomainPtr dom, const char *id, char **ret, struct edera_error *err)
{
	char *xml = virDomainGetXMLDesc(dom, 0);

	if (!xml)
		return kvm_virt_error(err, "cannot read the description of the virtual machine %s", id);
	*ret = xml;
	return 0;
}

int kvm_disk_attach(void *inst, const struct edera_call *call, const char *id, const struct edera_disk *d, struct edera_error *err)
{
	_domain_ virDomainPtr dom = NULL;
	_free_ char *xml = NULL;
	_buf_ struct buf disk = BUF_INIT;
	int r = kvm_call_expired(call, err);

	if (!r)
		r = kvm_find(inst, id, &dom, err);
	if (!r)
		r = describe(dom, id, &xml, err);
	if (!r && has_serial(xml, d->serial))
		r = err_set(err, -EEXIST, "the virtual machine %s has a disk '%s' already", id, d->serial);
	if (!r)
		r = kvm_disk_xml(d, free_index(xml), &disk, err);
	if (!r && virDomainAttachDeviceFlags(dom, (const char *)disk.data, VIR_DOMAIN_AFFECT_LIVE) < 0)
		r = kvm_virt_error(err, "cannot attach '%s' as disk '%s'", d->path, d->serial);
	return r;
}

int kvm_disk_detach(void *inst, const struct edera_call *call, const char *id, const char *serial, struct edera_error *err)
{
	const struct timespec pause = { 0, 5000000 };
	_domain_ virDomainPtr dom = NULL;
	char alias[64];
	bool asked = false;
	int r = kvm_call_expired(call, err);

	if (!r)
		r = kvm_find(inst, id, &dom, err);
	if ((size_t)snprintf(alias, sizeof alias, "ua-%s", serial) >= sizeof alias)
		return r; /* no such disk can be there */
	/* QEMU reports the end of the device as an event; libvirt then takes it out of the description. */
	while (!r) {
		_free_ char *xml = NULL;

		r = describe(dom, id, &xml, err);
		if (r || !has_serial(xml, serial))
			break;
		if (!asked && virDomainDetachDeviceAlias(dom, alias, VIR_DOMAIN_AFFECT_LIVE) < 0)
			r = kvm_virt_error(err, "cannot detach disk '%s'", serial);
		else if (asked)
			nanosleep(&pause, NULL);
		asked = true;
		if (!r)
			r = kvm_call_expired(call, err);
	}
	return r;
}
