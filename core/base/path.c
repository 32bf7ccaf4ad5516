/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int path_format(char dst[PATH_CAP], struct edera_error *err, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(dst, PATH_CAP, fmt, ap);
	va_end(ap);
	if (n < 0 || n >= PATH_CAP)
		return err_set(err, -ENAMETOOLONG, "the path '%.100s...' is longer than %d bytes", dst, PATH_CAP - 1);
	return 0;
}

int path_mkdirs(const char *path, mode_t mode, struct edera_error *err)
{
	char copy[PATH_CAP];
	int r = path_format(copy, err, "%s", path);

	if (r)
		return r;
	for (char *p = copy + 1;; p++) {
		bool last = *p == 0;
		struct stat st;

		if (!last && *p != '/')
			continue;
		*p = 0;
		if (mkdir(copy, last ? mode : 0755) == 0) {
			if (last && chmod(copy, mode) < 0)
				return err_errno(err, -errno, "cannot set the mode of '%s'", copy);
		} else if (errno != EEXIST || stat(copy, &st) < 0 || !S_ISDIR(st.st_mode)) {
			return err_errno(err, errno == EEXIST ? -ENOTDIR : -errno, "cannot make the directory '%s'", copy);
		}
		if (last)
			return 0;
		*p = '/';
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	return (type == FTW_DP ? rmdir(path) : unlink(path)) < 0 && errno != ENOENT ? -1 : 0;
}

int path_remove_tree(const char *path, struct edera_error *err)
{
	if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0 && errno != ENOENT)
		return err_errno(err, -errno, "cannot remove '%s'", path);
	return 0;
}

int path_read_file(const char *path, size_t max, struct buf *ret, struct edera_error *err)
{
	_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_buf_ struct buf b = BUF_INIT;

	if (fd < 0)
		return err_errno(err, -errno, "cannot open '%s'", path);
	for (;;) {
		size_t room = max - b.len + 1 < 65536 ? max - b.len + 1 : 65536;
		ssize_t n;

		if (buf_reserve(&b, room))
			return err_errno(err, -ENOMEM, "cannot read '%s'", path);
		n = read(fd, b.data + b.len, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, -errno, "cannot read '%s'", path);
		if (n == 0)
			break;
		b.len += (size_t)n;
		if (b.len > max)
			return err_set(err, -EFBIG, "'%s' is larger than the %zu bytes allowed", path, max);
	}
	b.data[b.len] = 0;
	*ret = b;
	b = (struct buf)BUF_INIT;
	return 0;
}

int path_write_file(const char *path, const void *data, size_t len, mode_t mode, struct edera_error *err)
{
	char tmp[PATH_CAP];
	int r = path_format(tmp, err, "%s.XXXXXX", path);
	const char *p = data;
	int fd;

	if (r)
		return r;
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, -errno, "cannot create a file beside '%s'", path);
	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			goto fail;
		p += n;
		len -= (size_t)n;
	}
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0)
		goto fail;
	if (close(fd) < 0) {
		fd = -1;
		goto fail;
	}
	fd = -1;
	if (rename(tmp, path) < 0)
		goto fail;
	return 0;
fail:
	r = err_errno(err, -errno, "cannot write '%s'", path);
	if (fd >= 0)
		close(fd);
	unlink(tmp);
	return r;
}

int path_check_trusted(const char *path, struct edera_error *err)
{
	_free_ char *real = realpath(path, NULL);
	struct stat st;

	if (!real)
		return err_errno(err, -errno, "cannot find '%s'", path);
	for (;;) {
		char *slash;

		if (lstat(real, &st) < 0)
			return err_errno(err, -errno, "cannot look at '%s'", real);
		if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
			return err_set(err, -EPERM, "'%s' is neither a regular file nor a directory", real);
		if (st.st_uid != 0)
			return err_set(err, -EPERM, "'%s' is owned by user %u, not by root", real, (unsigned)st.st_uid);
		if ((st.st_mode & 022) && !(S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX)))
			return err_set(err, -EPERM, "'%s' is writable by others than root (mode %04o)", real, (unsigned)(st.st_mode & 07777));
		slash = strrchr(real, '/');
		if (!slash || !strcmp(real, "/"))
			return 0;
		slash[slash == real ? 1 : 0] = 0;
	}
}
