/* SPDX-License-Identifier: Apache-2.0 */
/* The two byte streams of a VM: unix sockets in its directory that libvirt made and QEMU serves, one client at a time. */
#include "kvm.h"
#include "base/cleanup.h"

#include <stdio.h>
#include <time.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The sockets hold one client that waits, besides the one QEMU serves; it takes the next a moment after the last has closed. */
static int connect_within(int fd, const struct sockaddr_un *sa, const struct edera_call *call, struct edera_error *err)
{
	const struct timespec pause = { 0, 1000000 };

	while (connect(fd, (const struct sockaddr *)sa, sizeof *sa) < 0) {
		int r;

		if (errno != EAGAIN)
			return err_errno(err, -errno, "cannot connect to '%s'", sa->sun_path);
		r = kvm_call_expired(call, err);
		if (r)
			return r;
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int stream(struct kvm *k, const struct edera_call *call, const char *id, const char *name, int *ret_fd, struct edera_error *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	_domain_ virDomainPtr dom = NULL;
	_close_ int fd = -1;
	int r = kvm_call_expired(call, err);

	if (!r)
		r = kvm_find(k, id, &dom, err);
	if (r)
		return r;
	if ((size_t)snprintf(sa.sun_path, sizeof sa.sun_path, "%s/zones/%s/%s", k->run_dir, id, name) >= sizeof sa.sun_path)
		return err_set(err, -ENAMETOOLONG, "the run directory '%s' is too long for a socket", k->run_dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, -errno, "cannot make a socket");
	r = connect_within(fd, &sa, call, err);
	if (r)
		return r;
	*ret_fd = steal_fd(&fd);
	return 0;
}

int kvm_vm_channel(void *inst, const struct edera_call *call, const char *id, int *ret_fd, struct edera_error *err)
{
	return stream(inst, call, id, "agent.sock", ret_fd, err);
}

int kvm_vm_console(void *inst, const struct edera_call *call, const char *id, int *ret_fd, struct edera_error *err)
{
	return stream(inst, call, id, "console.sock", ret_fd, err);
}
