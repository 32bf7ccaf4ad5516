/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"
#include "base/cleanup.h"
#include "boot.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define OP(hv, op) PLUGIN_OP(hv, struct edera_hypervisor_ops, op)

void share_tag(const struct share *s, char dst[SHARE_TAG_CAP]) { snprintf(dst, SHARE_TAG_CAP, "m%zu-%.8s-%.4s", s->index, s->workload_id, s->workload_id + 9); }

const char *share_file(const char *host_path)
{
	const char *slash = strrchr(host_path, '/');
	struct stat st;

	return stat(host_path, &st) == 0 && !S_ISDIR(st.st_mode) && slash ? slash + 1 : NULL;
}

static int stage_path(const struct share *s, char dst[PATH_CAP], struct edera_error *err)
{
	char vm[PATH_CAP], tag[SHARE_TAG_CAP];
	int r = boot_vm_dir(vm, s->run_dir, s->zone_id, err);

	share_tag(s, tag);
	return r ? r : path_format(dst, err, "%.3000s/shares/%s", vm, tag);
}

/* A share that may only be read is so on the host's side: what the guest promises counts for nothing. */
static int bind_path(const char *source, const char *to, bool read_only, struct edera_error *err)
{
	if (mount(source, to, NULL, MS_BIND, NULL) < 0 || (read_only && mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0))
		return err_errno(err, -errno, "cannot bind '%s'", source);
	return 0;
}

static int stage_file(const char *dir, const char *source, const char *name, bool read_only, struct edera_error *err)
{
	char to[PATH_CAP];
	int fd, r;

	if ((r = path_mkdirs(dir, 0755, err)) || (r = path_format(to, err, "%s/%s", dir, name)))
		return r;
	fd = open(to, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, -errno, "cannot create '%s'", to);
	close(fd);
	return bind_path(source, to, read_only, err);
}

static int stage_dir_read_only(const char *dir, const char *source, struct edera_error *err)
{
	int r = path_mkdirs(dir, 0755, err);

	return r ? r : bind_path(source, dir, true, err);
}

static void unstage(const char *dir)
{
	char path[PATH_CAP];
	struct dirent *e;
	_closedir_ DIR *d = NULL;

	umount2(dir, MNT_DETACH | UMOUNT_NOFOLLOW);
	d = opendir(dir);

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' || (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")))
			if (path_format(path, NULL, "%.2000s/%s", dir, e->d_name) == 0) {
				umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
				unlink(path);
			}
	rmdir(dir);
}

void share_remove_all(const char *vm_dir)
{
	char shares[PATH_CAP], path[PATH_CAP];
	_closedir_ DIR *d = NULL;
	struct dirent *e;

	if (!path_format(shares, NULL, "%s/shares", vm_dir))
		d = opendir(shares);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && !path_format(path, NULL, "%.3000s/%s", shares, e->d_name))
			unstage(path);
}

static int check(const struct share *s, const PB(MountSpec) *m, struct edera_error *err)
{
	struct stat st;

	if (!OP(s->hv, share_attach))
		return err_set(err, -EOPNOTSUPP, "'%.200s' cannot be mounted: the hypervisor '%s' cannot share host directories with a zone", m->host_path, s->hv->name);
	if (*m->host_path != '/' || *m->target_path != '/')
		return err_set(err, -EINVAL, "a mount needs absolute paths, not '%.200s' at '%.200s'", m->host_path, m->target_path);
	if (stat(m->host_path, &st) < 0)
		return err_errno(err, -errno, "cannot mount '%.200s'", m->host_path);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "cannot mount '%.200s': it is neither a directory nor a regular file", m->host_path);
	return 0;
}

int share_add(const struct share *s, const struct edera_call *call, const PB(MountSpec) *m, struct edera_error *err)
{
	const char *file = share_file(m->host_path);
	struct edera_share share = { .path = m->host_path, .flags = m->read_only ? EDERA_SHARE_READONLY : 0 };
	char dir[PATH_CAP], tag[SHARE_TAG_CAP];
	int r = check(s, m, err);

	if (r || (r = stage_path(s, dir, err)))
		return r;
	unstage(dir);
	if (file)
		r = stage_file(dir, m->host_path, file, m->read_only, err);
	else if (m->read_only)
		r = stage_dir_read_only(dir, m->host_path, err);
	if (file || m->read_only)
		share.path = dir;
	share_tag(s, tag);
	share.tag = tag;
	if (!r)
		r = OP(s->hv, share_attach)(s->hv->inst, call, s->zone_id, &share, err);
	if (r)
		unstage(dir);
	return r;
}

int share_remove(const struct share *s, const struct edera_call *call, struct edera_error *err)
{
	char dir[PATH_CAP], tag[SHARE_TAG_CAP];
	int r = 0;

	share_tag(s, tag);
	if (OP(s->hv, share_detach))
		r = OP(s->hv, share_detach)(s->hv->inst, call, s->zone_id, tag, err);
	if (stage_path(s, dir, NULL) == 0)
		unstage(dir);
	return r;
}
