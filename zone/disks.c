/* SPDX-License-Identifier: Apache-2.0 */
/* Disks are told apart by serial, directories that the host shares by tag. A regular file of that name in the state directory's disks/ comes before any device; it is
 * mounted through a loop device. */
#include "agent.h"

#include "base/cleanup.h"
#include <endian.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_FIRST_MS 2
#define LOOK_MAX_MS 50
#define LOOP_TRIES 16

static bool serial_is(const char *block, const char *serial)
{
	_buf_ struct buf b = BUF_INIT;
	size_t n = strlen(serial);
	char path[PATH_CAP];

	if (!path_format(path, NULL, "/sys/block/%s/serial", block) && !path_read_file(path, 256, &b, NULL))
		return b.len >= n && !memcmp(b.data, serial, n) && (b.len == n || b.data[n] == '\n');
	/* SCSI: a page of four bytes of head, then the serial, perhaps padded */
	buf_clear(&b);
	if (path_format(path, NULL, "/sys/block/%s/device/vpd_pg80", block) || path_read_file(path, 4096, &b, NULL) || b.len < 4 + n)
		return false;
	return !memcmp(b.data + 4, serial, n) && (b.len == 4 + n || b.data[4 + n] == ' ' || !b.data[4 + n]);
}

static bool valid_serial(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

	return n && n <= 64 && !s[n] && s[0] != '.';
}

/* A SCSI disk has its serial a moment before it can be opened. */
static bool usable(const char *device)
{
	_close_ int fd = open(device, O_RDONLY | O_CLOEXEC);

	return fd >= 0;
}

/* 0, or -ENOENT. */
static int find(const struct agent *a, const char *serial, char path[PATH_CAP], bool *ret_file)
{
	_closedir_ DIR *d = NULL;
	struct dirent *e;
	struct stat st;

	if (!valid_serial(serial))
		return -ENOENT;
	if (!path_format(path, NULL, "%s/disks/%s", a->state_dir, serial) && !stat(path, &st)) {
		*ret_file = S_ISREG(st.st_mode);
		return 0;
	}
	d = a->init ? opendir("/sys/block") : NULL; /* elsewhere the machine's disks are none of our business */
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && serial_is(e->d_name, serial)) {
			*ret_file = false;
			return path_format(path, NULL, "/dev/%s", e->d_name) || !usable(path) ? -ENOENT : 0;
		}
	return -ENOENT;
}

/* ---- waiting: a disk plugged in while the machine runs appears a moment later ---- */

struct disk_wait {
	struct agent *a;
	uv_timer_t timer;
	uint64_t step, deadline;
	char serial[80];        /* or the tag of a share */
	char target[PATH_CAP];  /* where the share is mounted; "": a disk */
	bool read_only;
	void (*ready)(void *user, int code);
	void *user;
};

static void free_wait(uv_handle_t *h)
{
	free(h->data);
}

void disk_wait_cancel(struct disk_wait *w)
{
	if (w)
		uv_close((uv_handle_t *)&w->timer, free_wait);
}

/* Nothing lists the tags there are: mounting one is how to ask. */
static int mount_share(const struct disk_wait *w)
{
	return mount(w->serial, w->target, "virtiofs", MS_NODEV | (w->read_only ? MS_RDONLY : 0), NULL) < 0 ? -errno : 0;
}

static void look(uv_timer_t *t)
{
	struct disk_wait *w = t->data;
	char path[PATH_CAP];
	bool file;
	int r = *w->target ? mount_share(w) : find(w->a, w->serial, path, &file);

	if (r && uv_now(w->a->loop) < w->deadline) {
		w->step = w->step * 2 < LOOK_MAX_MS ? w->step * 2 : LOOK_MAX_MS;
		uv_timer_start(t, look, w->step, 0);
		return;
	}
	w->ready(w->user, r ? -ENODEV : 0);
	disk_wait_cancel(w);
}

struct disk_wait *share_wait(struct agent *a, const char *tag, const char *target, bool read_only, void (*ready)(void *, int), void *user)
{
	struct disk_wait *w = path_mkdirs(target, 0755, NULL) ? NULL : disk_wait(a, tag, ready, user);

	if (w) {
		snprintf(w->target, sizeof w->target, "%s", target);
		w->read_only = read_only;
	}
	return w;
}

struct disk_wait *disk_wait(struct agent *a, const char *serial, void (*ready)(void *, int), void *user)
{
	struct disk_wait *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->a = a;
	w->step = LOOK_FIRST_MS;
	w->deadline = uv_now(a->loop) + DISK_WAIT_MS;
	snprintf(w->serial, sizeof w->serial, "%s", serial);
	w->ready = ready;
	w->user = user;
	w->timer.data = w;
	uv_timer_init(a->loop, &w->timer);
	uv_timer_start(&w->timer, look, 0, 0);
	return w;
}

/* ---- mounting ---- */

/* A loop device on the file that goes away with its last user. */
static int loop_open(const char *path, bool read_only, char ret_device[PATH_CAP], struct edera_error *err)
{
	struct loop_config c = { .info.lo_flags = LO_FLAGS_AUTOCLEAR | (read_only ? LO_FLAGS_READ_ONLY : 0) };
	_close_ int file = open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC), control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int e = errno;

	if (file < 0 || control < 0)
		return err_errno(err, -e, "cannot use '%s' as a disk", path);
	c.fd = (unsigned)file;
	for (int i = 0; i < LOOP_TRIES; i++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE), fd = -1;

		if (n >= 0 && !path_format(ret_device, NULL, "/dev/loop%d", n)) {
			mknod(ret_device, S_IFBLK | 0600, makedev(7, (unsigned)n));
			fd = open(ret_device, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
		}
		if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &c) == 0)
			return fd;
		e = errno;
		if (fd >= 0)
			close(fd);
		if (e != EBUSY) /* else somebody was faster */
			break;
	}
	return err_errno(err, -e, "cannot attach '%s' to a loop device", path);
}

static bool holds_erofs(const char *device)
{
	_close_ int fd = open(device, O_RDONLY | O_CLOEXEC);
	uint32_t magic;

	return fd >= 0 && pread(fd, &magic, sizeof magic, 1024) == (ssize_t)sizeof magic && le32toh(magic) == 0xe0f5e1e2;
}

/* Not among the modules every boot loads: few images need it. The kernel cannot ask for it, as it knows our root from before it moved. */
static void load_erofs(struct agent *a)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL }, *const argv[] = { "modprobe", "erofs", NULL };
	struct child child = { .argv = argv, .envp = env, .fds = { -1, -1, 2 } };
	struct edera_error err = EDERA_ERROR_INIT;
	pid_t pid;

	if (child_start(&child, &pid, &err))
		agent_warn(a, "%s", err.msg);
	else
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
}

int disk_mount(struct agent *a, const char *serial, const char *target, bool read_only, struct edera_error *err)
{
	static const char *const types[] = { "squashfs", "erofs", "ext4" };
	char path[PATH_CAP], device[PATH_CAP];
	_close_ int loop = -1;
	bool file = false, erofs;
	int e = 0;

	if (find(a, serial, path, &file))
		return err_set(err, -ENODEV, "there is no disk with the serial '%s' in the zone", serial);
	if (file) {
		loop = loop_open(path, read_only, device, err);
		if (loop < 0)
			return loop;
		strcpy(path, device);
	}
	if (path_mkdirs(target, 0755, err))
		return err->code;
	erofs = holds_erofs(path);
	if (erofs && a->init && access("/sys/fs/erofs", F_OK) < 0)
		load_erofs(a);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (mount(path, target, types[i], MS_NODEV | (read_only || i < 2 ? MS_RDONLY : 0), NULL) == 0)
			return 0;
		if (errno != EINVAL && errno != ENODEV)
			e = errno;
		if (erofs && errno == ENODEV)
			return err_set(err, -ENODEV, "cannot mount the disk '%s': it is an erofs image, which the zone's kernel has no module for", serial);
	}
	return err_errno(err, e ? -e : -EINVAL, "cannot mount the disk '%s' (%s): it holds no filesystem that is known here", serial, path);
}
