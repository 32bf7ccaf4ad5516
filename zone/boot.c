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
#define DEFAULT_CHANNEL "virtio:dev.edera.agent.0"
#define SETTLE_AFTER_MS 200 /* when nobody has asked by then, the rest of the boot waits no longer */

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

static void make_link(struct agent *a, const char *to, const char *path)
{
	if (symlink(to, path) < 0 && errno != EEXIST)
		agent_warn(a, "cannot make '%s': %s", path, strerror(errno));
}

/* Value of a word KEY=VALUE on the kernel's command line; the last one counts. */
static const char *kernel_option(const char *key)
{
	static struct buf line;
	const char *found = NULL;
	size_t n = strlen(key);
	char *save = NULL;

	if (path_read_file("/proc/cmdline", 64 << 10, &line, NULL) || !line.data)
		return NULL;
	for (char *w = strtok_r((char *)line.data, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
		if (!strncmp(w, key, n) && w[n] == '=')
			found = w + n + 1;
	return found;
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

	if (!strcmp(path, "/") || !strncmp(path, NEW_ROOT, strlen(NEW_ROOT)) || !strncmp(path, "/edera", 6))
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
static void copy_root(struct agent *a)
{
	mkdir(NEW_ROOT, 0755);
	if (mount("tmpfs", NEW_ROOT, "tmpfs", 0, "mode=0755") < 0 || nftw("/", copy_entry, 16, FTW_PHYS | FTW_MOUNT) != 0) {
		agent_fault(a, "cannot copy the root to a tmpfs: %s", strerror(errno));
		return;
	}
	nftw("/", remove_entry, 16, FTW_PHYS | FTW_MOUNT | FTW_DEPTH); /* its memory is the zone's */
}

static void move_root(struct agent *a)
{
	static const char *const mounts[] = { "/proc", "/sys", "/dev" };
	char to[64];

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		snprintf(to, sizeof to, NEW_ROOT "%s", mounts[i]);
		mkdir(to, 0755); /* what is mounted on was not copied */
		if (mount(mounts[i], to, NULL, MS_MOVE, NULL) < 0)
			agent_fault(a, "cannot move '%s' to the new root: %s", mounts[i], strerror(errno));
	}
	if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		agent_fault(a, "cannot move the root to a tmpfs: %s", strerror(errno));
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

/* ---- first: as little as the channel needs ---- */

static unsigned modules_loaded;

static bool channel_there(const char *name)
{
	char path[PATH_CAP];

	return !strncmp(name, "hvc", 3) && !path_format(path, NULL, "/dev/%s", name) && access(path, F_OK) == 0;
}

void boot_first(struct agent *a)
{
	setpriority(PRIO_PROCESS, 0, -10);
	mount_one(a, "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_one(a, "sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_one(a, "devtmpfs", "/dev", MS_NOSUID, NULL);
	put_file(a, "/proc/self/oom_score_adj", "-1000");
	a->channel_name = kernel_option("edera.agent");
	if (!a->channel_name)
		a->channel_name = DEFAULT_CHANNEL;
	if (!channel_there(a->channel_name))
		modules_loaded = modules_load_early(a, 0, "virtio_console.");
}

/* ---- then, while the host is already answered: the rest, most of it in a child ---- */

static struct {
	struct agent *a;
	uv_timer_t timer;
	int report; /* what the child could not do */
	bool begun;
} settling;

int boot_settle(unsigned first_module)
{
	static struct agent a;

	setpriority(PRIO_PROCESS, 0, 5);
	modules_load_early(&a, first_module, NULL);
	copy_root(&a);
	for (size_t i = 0; i < a.n_warnings; i++)
		puts(a.warnings[i]);
	if (*a.fault)
		puts(a.fault);
	return *a.fault != 0;
}

/* Warnings, a line each; of a child that did not succeed the last line is why. */
static void take_report(struct agent *a, bool failed)
{
	char text[8192], *save = NULL;
	ssize_t n = read(settling.report, text, sizeof text - 1);

	close(settling.report);
	text[n > 0 ? n : 0] = 0;
	for (char *line = strtok_r(text, "\n", &save), *next; line; line = next) {
		next = strtok_r(NULL, "\n", &save);
		if (failed && !next)
			agent_fault(a, "%s", line);
		else
			agent_warn(a, "%s", line);
	}
	if (failed)
		agent_fault(a, "the boot could not be finished");
}

static void on_settled(void *user, int status)
{
	struct agent *a = user;

	take_report(a, status != 0);
	if (!*a->fault)
		move_root(a);
	mount_one(a, "devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0666");
	mount_one(a, "tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
	mount_one(a, "tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755");
	mount_one(a, "tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777");
	mount_one(a, "cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate");
	make_link(a, "/proc/self/fd", "/dev/fd");
	make_link(a, "/proc/self/fd/0", "/dev/stdin");
	make_link(a, "/proc/self/fd/1", "/dev/stdout");
	make_link(a, "/proc/self/fd/2", "/dev/stderr");
	mkdir(a->state_dir, 0700);
	cgroup_setup(a);
	pressure_watch(a);
	loopback_up(a);
	if (sethostname("zone", 4) < 0)
		agent_warn(a, "cannot set the host name: %s", strerror(errno));
	a->settled = true;
	service_go_on(a);
}

static void settle(struct agent *a)
{
	char number[16];
	const char *argv[] = { "/init", "--settle", number, NULL }, *env[] = { NULL };
	struct child child = { .argv = argv, .envp = env, .fds = { -1, -1, 2 } };
	struct edera_error err = EDERA_ERROR_INIT;
	int report[2];
	pid_t pid;

	snprintf(number, sizeof number, "%u", modules_loaded);
	if (pipe2(report, O_CLOEXEC | O_NONBLOCK) < 0) {
		agent_fault(a, "the boot could not be finished: %s", strerror(errno));
		a->settled = true;
		service_go_on(a);
		return;
	}
	settling.report = report[0];
	child.fds[1] = report[1];
	if (child_start(&child, &pid, &err)) {
		agent_fault(a, "the boot could not be finished: %s", err.msg);
		a->settled = true;
	} else {
		reaper_watch(pid, on_settled, a);
	}
	close(report[1]);
	if (a->settled)
		service_go_on(a);
}

void boot_continue(struct agent *a)
{
	if (!a->init || settling.begun)
		return;
	settling.begun = true;
	uv_timer_stop(&settling.timer);
	settle(a);
}

static void on_late(uv_timer_t *t)
{
	boot_continue(settling.a);
}

void boot_later(struct agent *a)
{
	settling.a = a;
	uv_timer_init(a->loop, &settling.timer);
	uv_timer_start(&settling.timer, on_late, SETTLE_AFTER_MS, 0);
}
