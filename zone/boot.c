/* SPDX-License-Identifier: Apache-2.0 */
/* What a PID 1 does before there is anything to serve. Nothing here is fatal: a zone that answers and says what went wrong is
 * worth more than one that does not. */
#include "agent.h"

#include "base/cleanup.h"
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEW_ROOT "/newroot"

static void put_file(struct agent *a, const char *path, const char *text)
{
	_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		agent_warn(a, "cannot write '%s': %s", path, strerror(errno));
}

static void mount_one(struct agent *a, const char *type, const char *target, unsigned long flags, const char *options)
{
	mkdir(target, 0755);
	if (mount(type, target, type, flags, options) < 0 && errno != EBUSY)
		agent_warn(a, "cannot mount %s on '%s': %s", type, target, strerror(errno));
}

/* ---- the root ---- */

static int copy_file(const char *from, const char *to, const struct stat *st)
{
	_close_ int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 07777);
	off_t left = st->st_size;

	if (in < 0 || out < 0)
		return -1;
	while (left > 0) {
		ssize_t n = sendfile(out, in, NULL, (size_t)left);

		if (n <= 0)
			return -1;
		left -= n;
	}
	return 0;
}

static int copy_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char to[PATH_CAP], link[PATH_CAP];
	ssize_t n;

	if (!strcmp(path, "/") || !strncmp(path, NEW_ROOT, strlen(NEW_ROOT)) || !strncmp(path, "/edera/early/", 13))
		return 0;
	if (path_format(to, NULL, "%s%s", NEW_ROOT, path))
		return -1;
	if (S_ISDIR(st->st_mode))
		return mkdir(to, st->st_mode & 07777);
	if (S_ISLNK(st->st_mode)) {
		n = readlink(path, link, sizeof link - 1);
		if (n < 0)
			return -1;
		link[n] = 0;
		return symlink(link, to);
	}
	return S_ISREG(st->st_mode) ? copy_file(path, to, st) : 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (strcmp(path, "/") && strncmp(path, NEW_ROOT, strlen(NEW_ROOT)))
		remove(path);
	return 0;
}

/* The initramfs cannot be pivoted away from, which is what crun does in every container; a tmpfs can. */
static void move_root(struct agent *a)
{
	mkdir(NEW_ROOT, 0755);
	if (mount("tmpfs", NEW_ROOT, "tmpfs", 0, "mode=0755") < 0 || nftw("/", copy_entry, 16, FTW_PHYS | FTW_MOUNT) != 0) {
		agent_warn(a, "cannot copy the root to a tmpfs: %s", strerror(errno));
		return;
	}
	nftw("/", remove_entry, 16, FTW_PHYS | FTW_MOUNT | FTW_DEPTH); /* its memory is the zone's */
	if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		agent_warn(a, "cannot move the root to a tmpfs: %s", strerror(errno));
}

/* ---- boot ---- */

static void loopback_up(struct agent *a)
{
	_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_name = "lo" };

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &r) < 0)
		return;
	r.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &r) < 0)
		agent_warn(a, "cannot bring the loopback interface up: %s", strerror(errno));
}

/* As far as the modules that the channel needs. */
void boot_early(struct agent *a)
{
	modules_load_early(a);
	move_root(a);
	mount_one(a, "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_one(a, "sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_one(a, "devtmpfs", "/dev", MS_NOSUID, NULL);
	setpriority(PRIO_PROCESS, 0, -10);
	put_file(a, "/proc/self/oom_score_adj", "-1000");
}

void boot_late(struct agent *a)
{
	mount_one(a, "devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0666");
	mount_one(a, "tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
	mount_one(a, "tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755");
	mount_one(a, "tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777");
	mount_one(a, "cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate");
	symlink("/proc/self/fd", "/dev/fd");
	symlink("/proc/self/fd/0", "/dev/stdin");
	symlink("/proc/self/fd/1", "/dev/stdout");
	symlink("/proc/self/fd/2", "/dev/stderr");
	cgroup_setup(a);
	loopback_up(a);
	if (sethostname("zone", 4) < 0)
		agent_warn(a, "cannot set the host name: %s", strerror(errno));
}
