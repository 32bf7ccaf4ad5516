/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "container.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_dir(const char *dir, const char *name, mode_t mode, struct edera_error *err)
{
	char path[PATH_CAP];

	if (path_format(path, err, "%s/%s", dir, name))
		return err->code;
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return err_errno(err, -errno, "cannot make '%s'", path);
	chmod(path, mode);
	return 0;
}

static int mount_root(struct agent *a, const char *dir, const Edera__Agent__V1__CreateWorkloadRequest *q, struct edera_error *err)
{
	char image[PATH_CAP], upper[PATH_CAP], root[PATH_CAP], name[40];
	_free_ char *options = NULL;
	struct stat st;

	if (path_format(image, err, "%s/image", dir) || path_format(upper, err, "%s/upper", dir) || path_format(root, err, "%s/rootfs", dir) ||
	    disk_mount(a, q->disk_serial, image, true, err))
		return err->code;
	if (make_dir(dir, "upper", 0700, err))
		return err->code;
	if (mount("tmpfs", upper, "tmpfs", MS_NODEV, "mode=0700") < 0)
		return err_errno(err, -errno, "cannot mount the writable layer of '%s'", q->id);
	if (make_dir(dir, "upper/upper", 0755, err) || make_dir(dir, "upper/work", 0700, err) || make_dir(dir, "rootfs", 0755, err))
		return err->code;
	/* the root directory itself is the upper one's */
	if (stat(image, &st) == 0) {
		char top[PATH_CAP];

		if (path_format(top, err, "%s/upper", upper))
			return err->code;
		chmod(top, st.st_mode & 07777);
		if (chown(top, st.st_uid, st.st_gid) < 0)
			return err_errno(err, -errno, "cannot prepare '%s'", top);
	}
	for (size_t i = 0; i < q->n_scratch_paths; i++) {
		snprintf(name, sizeof name, "upper/scratch-%zu", i);
		if (make_dir(dir, name, 0755, err))
			return err->code;
	}
	if (asprintf(&options, "lowerdir=%s,upperdir=%s/upper,workdir=%s/work", image, upper, upper) < 0) {
		options = NULL;
		return err_set(err, -ENOMEM, "out of memory");
	}
	if (mount("overlay", root, "overlay", MS_NODEV, options) < 0)
		return err_errno(err, -errno, "cannot mount the root filesystem of '%s'", q->id);
	return 0;
}

/* ---- what the host lends ---- */

int bundle_mount_path(const char *dir, size_t i, char ret[PATH_CAP], struct edera_error *err) { return path_format(ret, err, "%s/mounts/%zu", dir, i); }

/* Where the source of mount i is in the zone. */
static int mount_source(struct agent *a, const char *dir, const Edera__Agent__V1__Mount *m, size_t i, char **ret, struct edera_error *err)
{
	char base[PATH_CAP], path[PATH_CAP];

	if (strchr(m->file, '/') || !strcmp(m->file, "..") || !strcmp(m->file, "."))
		return err_set(err, -EINVAL, "cannot mount '%s': it is not the name of one file", m->file);
	if (bundle_mount_path(dir, i, base, err))
		return err->code;
	switch (m->source_case) {
	case EDERA__AGENT__V1__MOUNT__SOURCE_VIRTIOFS_TAG:
		break; /* mounted there already */
	case EDERA__AGENT__V1__MOUNT__SOURCE_DISK_SERIAL:
		if (disk_mount(a, m->disk_serial, base, m->read_only, err))
			return err->code;
		break;
	case EDERA__AGENT__V1__MOUNT__SOURCE_ZONE_PATH:
		if (*m->zone_path != '/')
			return err_set(err, -EINVAL, "cannot mount '%s': the path in the zone is not absolute", m->zone_path);
		if (path_format(base, err, "%s", m->zone_path))
			return err->code;
		break;
	default:
		return err_set(err, -EINVAL, "the mount at '%s' has no source", m->target_path);
	}
	if (path_format(path, err, "%s%s%s", base, *m->file ? "/" : "", m->file))
		return err->code;
	*ret = strdup(path);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* ---- files ---- */

static int write_file(const char *dir, const char *name, const void *data, size_t len, struct edera_error *err)
{
	char path[PATH_CAP];

	return path_format(path, err, "%s/%s", dir, name) ? err->code : path_write_file(path, data, len, 0644, err);
}

static int write_files(const char *dir, const char *hostname, struct edera_error *err)
{
	_buf_ struct buf hosts = BUF_INIT, name = BUF_INIT, resolv = BUF_INIT;

	buf_printf(&hosts, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t%s\n", hostname);
	buf_printf(&name, "%s\n", hostname);
	if (path_read_file("/etc/resolv.conf", 64 << 10, &resolv, NULL) || !resolv.data)
		buf_clear(&resolv);
	if (hosts.failed || name.failed)
		return err_set(err, -ENOMEM, "out of memory");
	if (write_file(dir, "hosts", hosts.data, hosts.len, err) || write_file(dir, "hostname", name.data, name.len, err) ||
	    write_file(dir, "resolv.conf", resolv.data ? (void *)resolv.data : "", resolv.len, err))
		return err->code;
	return 0;
}

static bool valid_hostname(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");

	return n && n <= 64 && !s[n];
}

static int write_config(const struct container_input *in, json_object **ret_process, struct edera_error *err)
{
	json_object *config = container_config(in, err), *process = NULL;
	const char *text;
	int r;

	if (!config)
		return err->code;
	text = json_object_to_json_string_ext(config, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	r = text ? write_file(in->dir, "config.json", text, strlen(text), err) : err_set(err, -ENOMEM, "out of memory");
	if (!r && json_object_object_get_ex(config, "process", &process))
		*ret_process = json_object_get(process);
	json_object_put(config);
	return r;
}

static void free_sources(char **v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		free(v[i]);
	free(v);
}

int bundle_make(struct agent *a, const char *dir, const Edera__Agent__V1__CreateWorkloadRequest *q, json_object **ret_process, int *ret_stop_signal,
		struct edera_error *err)
{
	struct container_input in = { .q = q, .dir = dir, .cgroups = a->cgroups, .max_files = a->init ? 524288 : 0 };
	char hostname[80], root[PATH_CAP], **sources = calloc(q->n_mounts + 1, sizeof *sources);
	struct image_config image = { 0 };
	struct user user;
	_close_ int fd = -1;
	int r = 0;

	snprintf(hostname, sizeof hostname, "%.*s", *q->hostname ? 64 : 12, *q->hostname ? q->hostname : q->id);
	if (!sources)
		return err_set(err, -ENOMEM, "out of memory");
	if (!valid_hostname(hostname))
		r = err_set(err, -EINVAL, "'%s' cannot be a host name", hostname);
	if (!r)
		r = image_config_parse(q->image_config.data, q->image_config.len, &image, err);
	if (!r)
		r = mount_root(a, dir, q, err);
	for (size_t i = 0; i < q->n_mounts && !r; i++)
		r = mount_source(a, dir, q->mounts[i], i, &sources[i], err);
	if (!r)
		r = path_format(root, err, "%s/rootfs", dir);
	if (!r && (fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		r = err_errno(err, -errno, "cannot open '%s'", root);
	if (!r)
		r = user_of_spec(fd, q->process, image.user, &user, err);
	if (!r)
		r = write_files(dir, hostname, err);
	in.image = &image;
	in.user = &user;
	in.mount_sources = sources;
	in.hostname = hostname;
	if (!r)
		r = write_config(&in, ret_process, err);
	if (!r && image.stop_signal)
		*ret_stop_signal = image.stop_signal;
	image_config_free(&image);
	free_sources(sources, q->n_mounts);
	return r;
}

static void unmount(const char *dir, const char *name)
{
	char path[PATH_CAP];

	if (!path_format(path, NULL, "%s/%s", dir, name) && umount2(path, UMOUNT_NOFOLLOW) < 0 && errno == EBUSY)
		umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH);
}

void bundle_remove(const char *dir, size_t n_mounts)
{
	char name[40];

	unmount(dir, "rootfs");
	for (size_t i = 0; i < n_mounts; i++) {
		snprintf(name, sizeof name, "mounts/%zu", i);
		unmount(dir, name);
	}
	unmount(dir, "upper");
	unmount(dir, "image");
	/* Only what is on the zone's own tmpfs; should something still be mounted, it stays as it is. */
	for (const char *const *f = (const char *const[]){ "hosts", "hostname", "resolv.conf", "config.json", "pid", NULL }; *f; f++) {
		char path[PATH_CAP];

		if (!path_format(path, NULL, "%s/%s", dir, *f))
			unlink(path);
	}
	for (size_t i = 0; i < n_mounts; i++) {
		char path[PATH_CAP];

		if (!path_format(path, NULL, "%s/mounts/%zu", dir, i))
			rmdir(path);
	}
	for (const char *const *d = (const char *const[]){ "mounts", "rootfs", "upper", "image", ".", NULL }; *d; d++) {
		char path[PATH_CAP];

		if (!path_format(path, NULL, "%s%s%s", dir, **d == '.' ? "" : "/", **d == '.' ? "" : *d))
			rmdir(path);
	}
}
