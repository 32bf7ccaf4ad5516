/* SPDX-License-Identifier: Apache-2.0 */
#include "bootfiles.h"
#include "base/cleanup.h"
#include "images.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static bool there(const char *path) { return access(path, R_OK) == 0; }

/* The zone initrd of this installation; one in the data directory belongs to the node's own kernel, for it may carry that one's modules. */
static const char base_initrd[] = PROTECT_ZONE_DIR "/initrd";

static int append_file(int out, const char *path, struct edera_error *err)
{
	_close_ int in = open(path, O_RDONLY | O_CLOEXEC);
	static const char zeros[4];
	struct stat st;
	off_t at = 0;

	if (in < 0 || fstat(in, &st) < 0)
		return err_errno(err, -errno, "cannot read '%s'", path);
	while (at < st.st_size) {
		ssize_t n = sendfile(out, in, &at, (size_t)(st.st_size - at));

		if (n <= 0)
			return err_errno(err, n < 0 ? -errno : -EIO, "cannot copy '%s'", path);
	}
	/* Archives of an initrd begin at multiples of four. */
	if (st.st_size % 4 && write(out, zeros, (size_t)(4 - st.st_size % 4)) < 0)
		return err_errno(err, -errno, "cannot copy '%s'", path);
	return 0;
}

static int compose(const char *initrd, const char *early, const char *to, struct edera_error *err)
{
	char tmp[PATH_CAP];
	int fd, r = path_format(tmp, err, "%s.XXXXXX", to);

	if (r)
		return r;
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, -errno, "cannot create '%s'", tmp);
	if (!(r = append_file(fd, initrd, err)))
		r = append_file(fd, early, err);
	if (!r && (fchmod(fd, 0644) < 0 || rename(tmp, to) < 0))
		r = err_errno(err, -errno, "cannot write '%s'", to);
	close(fd);
	if (r)
		unlink(tmp);
	return r;
}

/* Named after what it is made of, so that a new installation's initrd makes a new file. */
static int initrd_with_early(struct boot *b, const char *early, char ret[PATH_CAP])
{
	char dir[PATH_CAP];
	struct stat st;
	int r;

	if (stat(base_initrd, &st) < 0)
		return err_errno(&b->err, -errno, "cannot find the zone initrd '%s'; reinstall protect", base_initrd);
	if ((r = path_format(dir, &b->err, "%s/boot", b->cache_dir)) || (r = path_mkdirs(dir, 0711, &b->err)))
		return r;
	r = path_format(ret, &b->err, "%s/%.20s-%llx-%llx.initrd", dir, strchr(b->kernel_digest, ':') + 1, (unsigned long long)st.st_mtim.tv_sec * 1000000000 + (unsigned long long)st.st_mtim.tv_nsec,
			(unsigned long long)st.st_size);
	if (r || there(ret))
		return r;
	return compose(base_initrd, early, ret, &b->err);
}

static int of_image(struct boot *b, const struct edera_call *call, struct boot_files *f)
{
	char dir[PATH_CAP], early[PATH_CAP];
	int r = images_file(b->plugins, call, b->kernel_digest, EDERA_IMAGE_DIRECTORY, EDERA_IMAGE_FILE_ROOT, dir, &b->err);

	if (r)
		return err_wrap(&b->err, "the zone's kernel image %.24s... is not in the cache", b->kernel_digest);
	if ((r = path_format(f->kernel, &b->err, "%s/kernel/image", dir)) || (r = path_format(f->addons, &b->err, "%s/kernel/addons.squashfs", dir)) ||
	    (r = path_format(early, &b->err, "%s/kernel/early.cpio", dir)))
		return r;
	if (!there(f->kernel))
		return err_set(&b->err, -ENOENT, "the image %.24s... is not a kernel image: it has no /kernel/image", b->kernel_digest);
	if (!there(f->addons))
		f->addons[0] = 0;
	return there(early) ? initrd_with_early(b, early, f->initrd) : path_format(f->initrd, &b->err, "%s", base_initrd);
}

static int of_node(struct boot *b, struct boot_files *f)
{
	int r;

	if ((r = path_format(f->kernel, &b->err, "%s/zone/kernel", b->data_dir)) || (r = path_format(f->initrd, &b->err, "%s/zone/initrd", b->data_dir)) ||
	    (r = path_format(f->addons, &b->err, "%s/zone/addons.squashfs", b->data_dir)))
		return r;
	if (!there(f->kernel))
		return err_set(&b->err, -ENOENT, "no kernel was named and this node has none of its own ('%s'): name one with --kernel-variant, set [zone] default-kernel-variant, or run protect-pack-kernel --install",
			       f->kernel);
	if (!there(f->initrd) && (r = path_format(f->initrd, &b->err, "%s", base_initrd)))
		return r;
	if (!there(f->initrd))
		return err_set(&b->err, -ENOENT, "cannot find the zone initrd '%s'; reinstall protect", f->initrd);
	if (!there(f->addons))
		f->addons[0] = 0;
	return 0;
}

int boot_files_find(struct boot *b, const struct edera_call *call, struct boot_files *ret)
{
	memset(ret, 0, sizeof *ret);
	return *b->kernel_digest ? of_image(b, call, ret) : of_node(b, ret);
}
