/* SPDX-License-Identifier: Apache-2.0 */
/* The directory an embedded libvirt lives in: gone after a reboot, as its VMs are, but for the cache of what QEMU can do. */
#include "kvm.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The devices every QEMU may see in its private /dev; libvirt's own list less the clocks, and KVM only where it is used. */
static const char devices[] = "\"/dev/null\", \"/dev/full\", \"/dev/zero\", \"/dev/random\", \"/dev/urandom\", \"/dev/ptmx\"";

static int write_conf(const struct kvm *k, struct edera_error *err)
{
	const char *user = kvm_probe_user();
	struct passwd *pw = getpwnam(user);
	struct group *gr = pw ? getgrgid(pw->pw_gid) : NULL;
	_buf_ struct buf b = BUF_INIT;
	char path[PATH_CAP];
	int r = path_format(path, err, "%s/etc/qemu.conf", k->root);

	if (r)
		return r;
	if (!gr)
		return err_set(err, -ENOENT, "the system has no user '%s' with a group, which libvirt needs to probe QEMU", user);
	buf_printf(&b, "# Written by protect-daemon at every start.\n");
	buf_printf(&b, "# Probes only: each zone's QEMU has a user of its own.\nuser = \"%s\"\ngroup = \"%s\"\n", user, gr->gr_name);
	buf_printf(&b, "# Kernels and images are shared and stay root's.\ndynamic_ownership = 0\nremember_owner = 0\n");
	buf_printf(&b, "# No virtlogd here.\nstdio_handler = \"file\"\n");
	/* The AppArmor and SELinux policies of distributions know libvirt by its usual directories. */
	buf_printf(&b, "# Sites that want AppArmor or SELinux labels use qemu:///system.\nsecurity_driver = \"none\"\n");
	buf_printf(&b, "cgroup_device_acl = [ %s%s ]\n", devices, k->hardware ? ", \"/dev/kvm\"" : "");
	if (b.failed)
		return err_set(err, -ENOMEM, "cannot get memory for '%s'", path);
	return path_write_file(path, b.data, b.len, 0644, err);
}

/* Probing QEMU takes seconds and what it finds holds until QEMU, the kernel or libvirt change: that survives reboots. */
static int link_cache(const struct kvm *k, struct edera_error *err)
{
	char target[PATH_CAP], link[PATH_CAP];
	int r = path_format(target, err, "%s/libvirt", k->host->path(k->host->core, EDERA_PATH_DATA));

	if (!r)
		r = path_mkdirs(target, 0711, err);
	if (!r)
		r = path_format(link, err, "%s/cache", k->root);
	if (!r && symlink(target, link) < 0 && errno != EEXIST)
		r = err_errno(err, -errno, "cannot make the link '%s'", link);
	return r;
}

int kvm_set_uri(struct kvm *k, const char *uri, struct edera_error *err)
{
	int r = 0;

	k->embedded = text_starts(uri, KVM_EMBED_URI) && (!uri[strlen(KVM_EMBED_URI)] || text_starts(uri, KVM_EMBED_URI "?root=/"));
	if (k->embedded && uri[strlen(KVM_EMBED_URI)])
		r = path_format(k->root, err, "%s", uri + strlen(KVM_EMBED_URI "?root="));
	else if (k->embedded)
		r = path_format(k->root, err, "%s/libvirt", k->run_dir);
	if (!r && k->embedded)
		snprintf(k->uri, sizeof k->uri, KVM_EMBED_URI "?root=%s", k->root);
	else if (!r && (size_t)snprintf(k->uri, sizeof k->uri, "%s", uri) >= sizeof k->uri)
		r = err_set(err, -EINVAL, "the libvirt connection '%.64s...' is too long", uri);
	return r;
}

int kvm_root_prepare(struct kvm *k, struct edera_error *err)
{
	char etc[PATH_CAP];
	int r = path_format(etc, err, "%s/etc", k->root);

	/* libvirt's monitor socket, DIR/lib/qemu/domain-NNNNN-zone-0123456789abcde/monitor.sock, must fit sun_path. */
	if (!r && strlen(k->root) > 108 - sizeof "/lib/qemu/domain-99999-zone-0123456789abcde/monitor.sock")
		r = err_set(err, -ENAMETOOLONG, "the path '%s' is too long for libvirt's sockets; choose a shorter run directory", k->root);
	if (!r)
		r = path_mkdirs(k->root, 0711, err);
	if (!r)
		r = path_mkdirs(etc, 0755, err);
	if (!r)
		r = link_cache(k, err);
	return r ? r : write_conf(k, err);
}
