/* SPDX-License-Identifier: Apache-2.0 */
/* The KVM hypervisor: QEMU through libvirt. Registration only; the work is in the other files. */
#include "kvm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <libvirt/virterror.h>

static const struct edera_conf_key keys[] = {
	{ "uri", EDERA_CONF_STRING, 0, "qemu:///embed",
	  "libvirt connection: qemu:///embed runs libvirt inside the daemon, qemu:///system uses a running libvirtd" },
	{ "accelerator", EDERA_CONF_STRING, 0, "auto", "auto, kvm (hardware virtualization) or tcg (software emulation)" },
	{ "machine", EDERA_CONF_STRING, 0, "q35", "QEMU machine type: pc, q35 or a versioned name of one" },
	{ "emulator", EDERA_CONF_STRING, 0, "/usr/bin/qemu-system-x86_64", "path of QEMU" },
	{ 0 },
};

static int probe(const struct edera_host *host, const struct edera_conf *conf, struct edera_error *err)
{
	const char *emulator = host->conf_str(conf, "emulator");
	bool hardware;

	if (access(emulator, X_OK) < 0)
		return err_errno(err, -ENODEV, "QEMU cannot be run at '%s' (Debian: qemu-system-x86)", emulator);
	return kvm_choose_accelerator(host->conf_str(conf, "accelerator"), &hardware, err);
}

static void ignore_error(void *user, virErrorPtr e)
{
	(void)user;
	(void)e;
}

static void finish(void *inst)
{
	struct kvm *k = inst;

	kvm_forget_end(k, NULL);
	pthread_mutex_destroy(&k->ends_lock);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

/* Marks the domains of this daemon, and no other's: a namespace of our own that holds its run directory. */
static int set_owner(struct kvm *k, struct edera_error *err)
{
	char *p = k->owner + snprintf(k->owner, sizeof k->owner, "https://edera.dev/protect/zone?daemon=");

	for (const char *s = k->run_dir; *s; s++) {
		if (p + 4 > k->owner + sizeof k->owner)
			return err_set(err, -ENAMETOOLONG, "the run directory '%.64s...' has too long a path", k->run_dir);
		if (strchr("/-._", *s) || (*s >= '0' && *s <= '9') || ((*s | 32) >= 'a' && (*s | 32) <= 'z'))
			*p++ = *s;
		else
			p += sprintf(p, "%%%02X", (unsigned char)*s);
	}
	*p = 0;
	return 0;
}

static int init(const struct edera_host *host, const struct edera_conf *conf, void **ret, struct edera_error *err)
{
	const char *uri = host->conf_str(conf, "uri");
	struct kvm *k = calloc(1, sizeof *k);
	int r;

	if (!k)
		return err_set(err, -ENOMEM, "cannot get memory for the KVM plugin");
	k->host = host;
	k->machine = host->conf_str(conf, "machine");
	k->emulator = host->conf_str(conf, "emulator");
	k->run_dir = host->path(host->core, EDERA_PATH_RUN);
	k->events = k->shutdowns = -1;
	pthread_mutex_init(&k->lock, NULL);
	pthread_mutex_init(&k->ends_lock, NULL);
	r = kvm_choose_accelerator(host->conf_str(conf, "accelerator"), &k->hardware, err);
	if (k->hardware)
		k->qemu_gid = kvm_group_of(KVM_NODE, false);
	if (!r)
		r = set_owner(k, err);
	if (!r)
		r = kvm_set_uri(k, uri, err);
	if (!r && !k->embedded && !k->qemu_gid)
		k->qemu_gid = kvm_group_of(KVM_LIBVIRTD_DIR, true);
	/* What libvirt has to say comes back as errors of its calls; each would also go to stderr. */
	setenv("LIBVIRT_LOG_OUTPUTS", "4:file:/dev/null", 0);
	virSetErrorFunc(NULL, ignore_error);
	if (!r && (virInitialize() < 0 || virEventRegisterDefaultImpl() < 0))
		r = kvm_virt_error(err, "cannot initialise libvirt");
	if (r) {
		finish(k);
		return r;
	}
	*ret = k;
	return 0;
}

static void stop(void *inst)
{
	struct kvm *k = inst;

	kvm_disconnect(k);
	kvm_loop_stop(k);
}

static int start(void *inst, struct edera_error *err)
{
	struct kvm *k = inst;
	_conn_ virConnectPtr conn = NULL;
	int r = k->embedded ? kvm_root_prepare(k, err) : 0;

	if (!r)
		r = kvm_loop_start(k, err);
	if (!r)
		r = kvm_connect(k, &conn, err);
	if (r)
		stop(k);
	return r;
}

static const struct edera_hypervisor_ops ops = {
	.size = sizeof ops,
	.vm_create = kvm_vm_create,
	.vm_start = kvm_vm_start,
	.vm_stop = kvm_vm_stop,
	.vm_destroy = kvm_vm_destroy,
	.vm_info = kvm_vm_info,
	.vm_list = kvm_vm_list,
	.vm_channel = kvm_vm_channel,
	.vm_console = kvm_vm_console,
	.disk_attach = kvm_disk_attach,
	.disk_detach = kvm_disk_detach,
	.share_attach = kvm_share_attach,
	.share_detach = kvm_share_detach,
};

static const struct edera_provide provides[] = {
	{ EDERA_KIND_HYPERVISOR, 0, "kvm",
	  EDERA_HV_BLOCK_HOTPLUG | EDERA_HV_FS_SHARE | EDERA_HV_CONSOLE | EDERA_HV_ADOPT | EDERA_HV_PV_ONLY | EDERA_HV_OWN_KERNEL, &ops },
	{ 0 },
};

EDERA_PLUGIN_DEFINE(.name = "kvm", .version = PACKAGE_VERSION, .summary = "QEMU/KVM virtual machines through libvirt",
	.license = "Apache-2.0", .provides = provides, .conf = keys, .probe = probe, .init = init, .start = start, .stop = stop, .fini = finish);
