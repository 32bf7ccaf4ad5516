/* SPDX-License-Identifier: Apache-2.0 */
/* The peer of launch.sh: libvirt's embedded driver alone, told to start the domain that the daemon starts.
 * usage: bare-libvirt ROOT XML-FILE CONSOLE-SOCKET MARKER
 * For each line on stdin: makes the domain, lets it run, waits until MARKER appears on its console, prints the milliseconds from
 * before the making, ends it. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void *events(void *unused)
{
	while (virEventRunDefaultImpl() == 0)
		;
	return unused;
}

static int fail(const char *what)
{
	fprintf(stderr, "bare-libvirt: cannot %s: %s\n", what, virGetLastErrorMessage());
	return -1;
}

static int console(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool wait_for(int fd, const char *marker)
{
	_buf_ struct buf seen = BUF_INIT;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char chunk[4096];

	while (poll(&p, 1, 120000) > 0) {
		ssize_t n = read(fd, chunk, sizeof chunk);

		if (n <= 0)
			return false;
		buf_append(&seen, chunk, (size_t)n);
		if (memmem(seen.data, seen.len, marker, strlen(marker)))
			return true;
	}
	return false;
}

static int start_once(virConnectPtr conn, const char *xml, const char *socket_path, const char *marker)
{
	double begin = now_ms();
	virDomainPtr dom = virDomainCreateXML(conn, xml, VIR_DOMAIN_START_PAUSED);
	int r = 0;

	if (!dom)
		return fail("make the domain");
	{
		_close_ int fd = console(socket_path);

		if (fd < 0)
			r = fail("open the console");
		else if (virDomainResume(dom) < 0)
			r = fail("let the domain run");
		else if (!wait_for(fd, marker))
			r = fail("see the marker on the console");
		else
			printf("%.1f\n", now_ms() - begin);
	}
	fflush(stdout);
	virDomainDestroy(dom);
	virDomainFree(dom);
	return r;
}

int main(int argc, char **argv)
{
	_buf_ struct buf xml = BUF_INIT;
	struct edera_error err = EDERA_ERROR_INIT;
	char uri[PATH_CAP], line[16];
	virConnectPtr conn;
	pthread_t thread;

	if (argc != 5 || path_format(uri, &err, "qemu:///embed?root=%s", argv[1]) || path_read_file(argv[2], 1 << 20, &xml, &err)) {
		fprintf(stderr, "usage: bare-libvirt ROOT XML-FILE CONSOLE-SOCKET MARKER %s\n", err.msg);
		return 2;
	}
	virEventRegisterDefaultImpl();
	pthread_create(&thread, NULL, events, NULL);
	conn = virConnectOpen(uri);
	if (!conn)
		return fail("open libvirt") ? 1 : 0;
	while (fgets(line, sizeof line, stdin))
		if (start_once(conn, (const char *)xml.data, argv[3], argv[4]))
			return 1;
	virConnectClose(conn);
	return 0;
}
