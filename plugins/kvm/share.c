/* SPDX-License-Identifier: Apache-2.0 */
/* Host directories in a running VM: a virtiofsd for each, on a socket that only this VM's QEMU may open. It ends when QEMU lets go of
 * the socket, so that nothing of it outlives the device or the VM. */
#include "kvm.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const virtiofsd_paths[] = { "/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd" };

/* A child that runs until its socket is closed; collected when it ends. */
struct fsd {
	struct kvm *k;
	uint64_t watch;
	int pidfd;
};

static void fsd_ended(void *user, uint32_t events)
{
	struct fsd *f = user;
	siginfo_t si;

	(void)events;
	f->k->host->unwatch(f->k->host->core, f->watch);
	waitid(P_PIDFD, (id_t)f->pidfd, &si, WEXITED | WNOHANG);
	close(f->pidfd);
	free(f);
}

static bool valid_tag(const char *s)
{
	size_t n = strlen(s);

	return n >= 1 && n <= 31 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static bool has_tag(const char *xml, const char *tag)
{
	char alias[64];

	snprintf(alias, sizeof alias, "<alias name='ua-share-%s'/>", tag);
	return strstr(xml, alias) != NULL;
}

/* The user that the domain's QEMU runs as is in its description: <label>+UID:+GID</label>. */
static int owner_of(const char *xml, const char *id, uid_t *ret, struct edera_error *err)
{
	const char *label = strstr(xml, "<label>+");
	unsigned uid;

	if (!label || sscanf(label, "<label>+%u:", &uid) != 1)
		return err_set(err, -EPROTO, "the description of the virtual machine %s does not say which user it runs as", id);
	*ret = uid;
	return 0;
}

static int listen_for(const char *path, uid_t uid, struct edera_error *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof a.sun_path)
		return err_set(err, -ENAMETOOLONG, "the path '%s' is too long for a socket", path);
	strcpy(a.sun_path, path);
	unlink(path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || chmod(path, 0600) < 0 || chown(path, uid, (gid_t)-1) < 0 || listen(fd, 1) < 0) {
		int code = -errno;

		if (fd >= 0)
			close(fd);
		return err_errno(err, code, "cannot listen on '%s'", path);
	}
	return fd;
}

static int start_fsd(struct kvm *k, const struct edera_share *s, const char *sock, uid_t uid, struct edera_error *err)
{
	const char *program = access(virtiofsd_paths[0], X_OK) == 0 ? virtiofsd_paths[0] : virtiofsd_paths[1];
	_close_ int fd = listen_for(sock, uid, err);
	_buf_ struct buf source = BUF_INIT;
	const char *argv[] = { program, "--fd=3", "-o", NULL, NULL };
	int fds[] = { -1, -1, -1, fd };
	struct edera_spawn spawn = { .size = sizeof spawn, .argv = argv, .fds = fds, .n_fds = 4 };
	struct fsd *f;
	int r;

	if (fd < 0)
		return fd;
	/* Commas part the options of -o; one in a path is not to be had. */
	if (strchr(s->path, ','))
		return err_set(err, -EINVAL, "cannot share '%s': virtiofsd takes no path with a comma", s->path);
	buf_printf(&source, "source=%s", s->path);
	f = calloc(1, sizeof *f);
	if (source.failed || !f) {
		free(f);
		return err_set(err, -ENOMEM, "cannot get memory to share '%s'", s->path);
	}
	argv[3] = (char *)source.data;
	f->k = k;
	r = k->host->spawn(k->host->core, &spawn, &f->pidfd, err);
	if (r) {
		free(f);
		return err_wrap(err, "cannot share '%s' (Debian: qemu-system-common has virtiofsd)", s->path);
	}
	r = k->host->watch_fd(k->host->core, f->pidfd, POLLIN, fsd_ended, f, &f->watch);
	return r ? err_errno(err, r, "cannot watch virtiofsd") : 0;
}

static int socket_path(struct kvm *k, const char *id, const char *tag, char dst[PATH_CAP], struct edera_error *err)
{
	return path_format(dst, err, "%s/zones/%s/%s.sock", k->run_dir, id, tag);
}

/* Where the next device goes: 0, wherever libvirt likes, when the machine has no bridge for it. */
static int free_slot(const char *xml, unsigned *ret, struct edera_error *err)
{
	char address[128];

	if (!strstr(xml, "model='" KVM_BRIDGE "'")) {
		*ret = 0;
		return 0;
	}
	for (unsigned slot = 1; slot < KVM_BRIDGE_SLOTS; slot++) {
		snprintf(address, sizeof address, KVM_BRIDGE_ADDRESS, slot);
		if (!strstr(xml, address)) {
			*ret = slot;
			return 0;
		}
	}
	return err_set(err, -ENOSPC, "a virtual machine can have no more than %u shares", KVM_BRIDGE_SLOTS - 1);
}

int kvm_share_attach(void *inst, const struct edera_call *call, const char *id, const struct edera_share *s, struct edera_error *err)
{
	struct kvm *k = inst;
	_domain_ virDomainPtr dom = NULL;
	_buf_ struct buf device = BUF_INIT;
	char sock[PATH_CAP];
	char *xml = NULL;
	unsigned slot = 0;
	uid_t uid = 0;
	int r = kvm_call_expired(call, err);

	if (!r && !valid_tag(s->tag))
		r = err_set(err, -EINVAL, "the share tag '%s' is not 1 to 31 of a-z, 0-9 and '-'", s->tag);
	if (r || (r = kvm_find(k, id, &dom, err)) || (r = socket_path(k, id, s->tag, sock, err)))
		return r;
	xml = virDomainGetXMLDesc(dom, 0);
	if (!xml)
		return kvm_virt_error(err, "cannot read the description of the virtual machine %s", id);
	r = has_tag(xml, s->tag) ? err_set(err, -EEXIST, "the virtual machine %s has a share '%s' already", id, s->tag) : owner_of(xml, id, &uid, err);
	if (!r)
		r = free_slot(xml, &slot, err);
	free(xml);
	if (r || (r = kvm_share_xml(s, sock, slot, &device, err)) || (r = start_fsd(k, s, sock, uid, err)))
		return r;
	if (virDomainAttachDeviceFlags(dom, (const char *)device.data, VIR_DOMAIN_AFFECT_LIVE) < 0) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		struct sockaddr_un a = { .sun_family = AF_UNIX };

		r = kvm_virt_error(err, "cannot attach '%s' as share '%s'", s->path, s->tag);
		/* A virtiofsd ends with its first client: be that, briefly. */
		snprintf(a.sun_path, sizeof a.sun_path, "%s", sock);
		if (fd >= 0) {
			connect(fd, (struct sockaddr *)&a, sizeof a);
			close(fd);
		}
		unlink(sock);
	}
	return r;
}

int kvm_share_detach(void *inst, const struct edera_call *call, const char *id, const char *tag, struct edera_error *err)
{
	const struct timespec pause = { 0, 5000000 };
	struct kvm *k = inst;
	_domain_ virDomainPtr dom = NULL;
	char alias[64], sock[PATH_CAP];
	bool asked = false;
	int r = kvm_call_expired(call, err);

	if (!r)
		r = kvm_find(k, id, &dom, err);
	snprintf(alias, sizeof alias, "ua-share-%s", tag);
	while (!r) {
		_free_ char *xml = virDomainGetXMLDesc(dom, 0);

		if (!xml)
			r = kvm_virt_error(err, "cannot read the description of the virtual machine %s", id);
		else if (!has_tag(xml, tag))
			break;
		else if (!asked && virDomainDetachDeviceAlias(dom, alias, VIR_DOMAIN_AFFECT_LIVE) < 0)
			r = kvm_virt_error(err, "cannot detach the share '%s'", tag);
		else if (asked)
			nanosleep(&pause, NULL);
		asked = true;
		if (!r)
			r = kvm_call_expired(call, err);
	}
	if (!socket_path(k, id, tag, sock, NULL))
		unlink(sock);
	return r;
}
