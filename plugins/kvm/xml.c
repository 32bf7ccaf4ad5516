/* SPDX-License-Identifier: Apache-2.0 */
/* What libvirt is told of a VM. Names, paths and command lines come from users: every text goes through escape(). */
#include "kvm.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void escape(struct buf *b, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		switch (c) {
		case '&': buf_puts(b, "&amp;"); break;
		case '<': buf_puts(b, "&lt;"); break;
		case '>': buf_puts(b, "&gt;"); break;
		case '\'': buf_puts(b, "&apos;"); break;
		case '"': buf_puts(b, "&quot;"); break;
		default: buf_append(b, c < 0x20 || c == 0x7f ? " " : s, 1);
		}
	}
}

/* <name>text</name> */
static void element(struct buf *b, const char *name, const char *text)
{
	buf_printf(b, "<%s>", name);
	escape(b, text);
	buf_printf(b, "</%s>", name);
}

/* escape() would change such a path into another one. */
static int check_path(const char *what, const char *path, struct edera_error *err)
{
	if (path[0] != '/')
		return err_set(err, -EINVAL, "the %s '%s' is not an absolute path", what, path);
	for (const char *p = path; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_set(err, -EINVAL, "the path of the %s '%s' has control characters", what, path);
	if (!text_valid_utf8(path, strlen(path)))
		return err_set(err, -EINVAL, "the path of the %s '%s' is not UTF-8", what, path);
	return 0;
}

void kvm_disk_target(unsigned index, char dst[8])
{
	if (index < 26)
		snprintf(dst, 8, "sd%c", 'a' + index);
	else
		snprintf(dst, 8, "sd%c%c", 'a' + (index / 26 - 1) % 26, 'a' + index % 26);
}

static bool valid_serial(const char *s)
{
	size_t n = strlen(s);

	return n >= 1 && n <= 20 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

int kvm_disk_xml(const struct edera_disk *d, unsigned index, struct buf *b, struct edera_error *err)
{
	bool block;
	struct stat st;
	char target[8];
	int r = check_path("disk", d->path, err);

	if (r)
		return r;
	if (!valid_serial(d->serial))
		return err_set(err, -EINVAL, "the disk serial '%s' is not 1 to 20 of a-z, 0-9 and '-'", d->serial);
	if (index >= KVM_MAX_DISKS)
		return err_set(err, -ENOSPC, "a virtual machine can have no more than %u disks", KVM_MAX_DISKS);
	if (stat(d->path, &st) < 0)
		return err_errno(err, -errno, "cannot use '%s' as disk '%s'", d->path, d->serial);
	if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "cannot use '%s' as disk '%s': neither a file nor a block device", d->path, d->serial);
	block = S_ISBLK(st.st_mode);
	kvm_disk_target(index, target);
	buf_printf(b, "<disk type='%s' device='disk'><driver name='qemu' type='raw' error_policy='report' discard='unmap'/><source %s='",
	           block ? "block" : "file", block ? "dev" : "file");
	escape(b, d->path);
	buf_printf(b, "'/><target dev='%s' bus='scsi'/>%s", target, d->flags & EDERA_DISK_READONLY ? "<readonly/>" : "");
	element(b, "serial", d->serial);
	buf_printf(b, "<alias name='ua-%s'/><address type='drive' controller='0' bus='0' target='%u' unit='0'/></disk>", d->serial, index);
	return b->failed ? err_set(err, -ENOMEM, "cannot get memory to describe disk '%s'", d->serial) : 0;
}

int kvm_share_xml(const struct edera_share *s, const char *socket, unsigned slot, struct buf *b, struct edera_error *err)
{
	struct stat st;
	int r = check_path("share", s->path, err);

	if (r)
		return r;
	if (stat(s->path, &st) < 0)
		return err_errno(err, -errno, "cannot share '%s'", s->path);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "cannot share '%s': it is not a directory", s->path);
	buf_puts(b, "<filesystem type='mount'><driver type='virtiofs' queue='1024'/><source socket='");
	escape(b, socket);
	buf_printf(b, "'/><target dir='%s'/><alias name='ua-share-%s'/>", s->tag, s->tag);
	if (slot)
		buf_printf(b, KVM_BRIDGE_ADDRESS, slot);
	buf_puts(b, "</filesystem>");
	return b->failed ? err_set(err, -ENOMEM, "cannot get memory to describe share '%s'", s->tag) : 0;
}

static void describe_boot(const struct kvm *k, const struct edera_vm_spec *s, struct buf *b)
{
	buf_puts(b, "<os><type arch='x86_64' machine='");
	escape(b, k->machine);
	buf_puts(b, "'>hvm</type>");
	element(b, "kernel", s->kernel);
	element(b, "initrd", s->initrd);
	buf_puts(b, "<cmdline>");
	escape(b, s->cmdline ? s->cmdline : "");
	buf_puts(b, " console=ttyS0 edera.agent=virtio:" KVM_CHANNEL "</cmdline></os>");
}

static void describe_socket(struct buf *b, const char *run_dir, const char *name)
{
	buf_puts(b, "<source mode='bind' path='");
	escape(b, run_dir);
	buf_printf(b, "/%s'/>", name);
}

static bool is_q35(const struct kvm *k)
{
	return strstr(k->machine, "q35") != NULL;
}

/* A q35 wants every device behind a port of its own. Those that are there from the start need none, and a kernel starts faster
 * without: what comes later goes into the one bridge. */
static void on_root(const struct kvm *k, unsigned slot, struct buf *b)
{
	if (is_q35(k))
		buf_printf(b, "<address type='pci' domain='0' bus='0' slot='%u' function='0'/>", slot);
}

static int describe_devices(const struct kvm *k, const struct edera_vm_spec *s, struct buf *b, struct edera_error *err)
{
	buf_puts(b, "<devices>");
	element(b, "emulator", k->emulator);
	buf_puts(b, "<controller type='usb' model='none'/><memballoon model='none'/><controller type='scsi' index='0' model='virtio-scsi'>");
	on_root(k, 2, b);
	buf_puts(b, "</controller><controller type='virtio-serial' index='0'>");
	on_root(k, 3, b);
	buf_puts(b, "</controller><rng model='virtio'><backend model='random'>/dev/urandom</backend>");
	on_root(k, 4, b);
	buf_puts(b, "</rng>");
	if (is_q35(k)) {
		buf_puts(b, "<controller type='pci' index='0' model='pcie-root'/><controller type='pci' index='1' model='dmi-to-pci-bridge'>");
		on_root(k, 5, b);
		buf_puts(b, "</controller><controller type='pci' index='2' model='" KVM_BRIDGE "'><address type='pci' domain='0' bus='1' slot='1' function='0'/></controller>");
	}
	buf_puts(b, "<serial type='unix'>");
	describe_socket(b, s->run_dir, "console.sock");
	buf_puts(b, "<target port='0'/></serial><channel type='unix'>");
	describe_socket(b, s->run_dir, "agent.sock");
	buf_puts(b, "<target type='virtio' name='" KVM_CHANNEL "'/></channel>");
	for (uint32_t i = 0; i < s->n_disks; i++) {
		int r = kvm_disk_xml(&s->disks[i], i, b, err);

		if (r)
			return r;
	}
	buf_puts(b, "</devices>");
	return 0;
}

/* The one NUMA cell is there for its memAccess: of a domain it finds running again, libvirt believes that its memory is shared
 * (which virtiofsd needs) from nothing else. */
static void describe_cpu(const struct kvm *k, const struct edera_vm_spec *s, struct buf *b)
{
	unsigned n = s->max_vcpus > s->vcpus ? s->max_vcpus : s->vcpus;

	buf_puts(b, k->hardware ? "<cpu mode='host-passthrough' migratable='off'>" : "<cpu mode='maximum'>");
	buf_printf(b, "<numa><cell id='0' cpus='0-%u' memory='%llu' unit='MiB' memAccess='shared'/></numa></cpu>", n - 1, (unsigned long long)s->memory_mib);
}

int kvm_domain_xml(const struct kvm *k, const struct edera_vm_spec *s, struct buf *ret, struct edera_error *err)
{
	_buf_ struct buf b = BUF_INIT;
	int r = check_path("kernel", s->kernel, err);

	if (!r)
		r = check_path("initrd", s->initrd, err);
	if (!r)
		r = check_path("run directory", s->run_dir, err);
	if (r)
		return r;
	buf_printf(&b, "<domain type='%s'><name>" KVM_NAME_PREFIX "%s</name><uuid>%s</uuid>", k->hardware ? "kvm" : "qemu", s->id, s->id);
	element(&b, "title", s->name ? s->name : "");
	buf_printf(&b, "<metadata><protect:zone xmlns:protect='%s'/></metadata>", k->owner);
	buf_printf(&b, "<memory unit='MiB'>%llu</memory>", (unsigned long long)s->memory_mib);
	buf_puts(&b, "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>"); /* virtiofsd reads and writes it */
	buf_printf(&b, "<vcpu current='%u'>%u</vcpu>", s->vcpus, s->max_vcpus > s->vcpus ? s->max_vcpus : s->vcpus);
	describe_boot(k, s, &b);
	buf_puts(&b, "<features><acpi/><apic/></features><clock offset='utc'/>");
	describe_cpu(k, s, &b);
	buf_puts(&b, "<on_poweroff>destroy</on_poweroff><on_reboot>destroy</on_reboot><on_crash>destroy</on_crash>");
	r = describe_devices(k, s, &b, err);
	if (r)
		return r;
	buf_printf(&b, "<seclabel type='static' model='dac' relabel='no'><label>+%u:+%u</label></seclabel></domain>",
	           s->uid, k->qemu_gid ? k->qemu_gid : s->uid);
	if (b.failed)
		return err_set(err, -ENOMEM, "cannot get memory to describe the virtual machine %s", s->id);
	*ret = b;
	b = (struct buf)BUF_INIT;
	return 0;
}
