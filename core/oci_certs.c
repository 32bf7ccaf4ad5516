/* SPDX-License-Identifier: Apache-2.0 */
#include "oci_certs.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MAX_FILE (1u << 20)
#define MAX_AUTHORITIES (3u << 20) /* of all *.crt together */

int oci_sealed_file(const char *what, const struct buf *b, int *ret_fd, struct edera_error *err)
{
	_close_ int fd = memfd_create(what, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, b->data, b->len) != (ssize_t)b->len || lseek(fd, 0, SEEK_SET) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_errno(err, -errno, "cannot hand %s over", what);
	*ret_fd = steal_fd(&fd);
	return 0;
}

static const char *ending_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && dot != name ? dot : "";
}

/* The file's PEM appended to `to`. A link is followed: that is how certificates that are renewed are kept. */
static int read_pem(int dir, const char *path, const char *name, struct buf *to, struct edera_error *err)
{
	_close_ int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	size_t start = to->len;
	struct stat st;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, -errno, "cannot open '%.200s/%.100s'", path, name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "'%.200s/%.100s' is not a regular file", path, name);
	while (n > 0 && to->len - start <= MAX_FILE) {
		if (buf_reserve(to, 65536))
			return err_errno(err, -ENOMEM, "cannot read '%.200s/%.100s'", path, name);
		n = read(fd, to->data + to->len, 65536);
		if (n < 0)
			return err_errno(err, -errno, "cannot read '%.200s/%.100s'", path, name);
		to->len += (size_t)n;
		to->data[to->len] = 0;
	}
	if (to->len - start > MAX_FILE)
		return err_set(err, -EFBIG, "'%.200s/%.100s' is larger than the %u bytes allowed", path, name, MAX_FILE);
	if (!strstr((char *)to->data + start, "-----BEGIN "))
		return err_set(err, -EINVAL, "'%.200s/%.100s' holds nothing in PEM form", path, name);
	buf_puts(to, "\n");
	return to->failed ? err_errno(err, -ENOMEM, "cannot read '%.200s/%.100s'", path, name) : 0;
}

/* NAME.cert has its NAME.key, and the other way round. */
static int check_pair(int dir, const char *path, const char *name, const char *other, struct edera_error *err)
{
	char pair[NAME_MAX + 8];
	struct stat st;

	snprintf(pair, sizeof pair, "%.*s%s", (int)(ending_of(name) - name), name, other);
	if (fstatat(dir, pair, &st, 0) == 0)
		return 0;
	if (errno != ENOENT)
		return err_errno(err, -errno, "cannot open '%.200s/%.100s'", path, pair);
	return err_set(err, -ENOENT, "there is '%.200s/%.100s', but no '%.100s' beside it, which belongs to it", path, name, pair);
}

static int take(int dir, const char *path, const char *name, struct buf *ca, char first[NAME_MAX + 1], struct edera_error *err)
{
	const char *ending = ending_of(name);
	int r = 0;

	if (!strcmp(ending, ".crt")) {
		r = read_pem(dir, path, name, ca, err);
		return r || ca->len <= MAX_AUTHORITIES ? r : err_set(err, -EFBIG, "the authorities in '%.200s' are larger than the %u bytes allowed", path, MAX_AUTHORITIES);
	}
	if (!strcmp(ending, ".key"))
		return check_pair(dir, path, name, ".cert", err);
	if (strcmp(ending, ".cert"))
		return 0;
	r = check_pair(dir, path, name, ".key", err);
	if (!r && (!*first || strcmp(name, first) < 0))
		snprintf(first, NAME_MAX + 1, "%s", name);
	return r;
}

static int read_directory(DIR *d, const char *path, struct buf *ca, char first[NAME_MAX + 1], struct edera_error *err)
{
	struct dirent *e;
	int r = 0;

	while (!r) {
		errno = 0;
		e = readdir(d);
		if (!e)
			return errno ? err_errno(err, -errno, "cannot read the directory '%.300s'", path) : 0;
		r = take(dirfd(d), path, e->d_name, ca, first, err);
	}
	return r;
}

static int read_client(int dir, const char *path, const char *name, struct oci_certs *c, struct edera_error *err)
{
	_buf_ struct buf cert = BUF_INIT, key = BUF_INIT;
	char pair[NAME_MAX + 8];
	int r;

	snprintf(pair, sizeof pair, "%.*s.key", (int)(ending_of(name) - name), name);
	r = read_pem(dir, path, name, &cert, err);
	if (!r)
		r = read_pem(dir, path, pair, &key, err);
	if (!r)
		r = oci_sealed_file("a client certificate", &cert, &c->cert_fd, err);
	if (!r)
		r = oci_sealed_file("a client key", &key, &c->key_fd, err);
	if (key.data)
		explicit_bzero(key.data, key.len);
	return r;
}

int oci_certs_open(const char *dir, const char *registry, struct oci_certs *ret, struct edera_error *err)
{
	struct oci_certs c = { -1, -1, -1 };
	_closedir_ DIR *d = NULL;
	_buf_ struct buf ca = BUF_INIT;
	char path[PATH_CAP], first[NAME_MAX + 1] = "";
	int r;

	*ret = c;
	if (!*dir)
		return 0;
	/* Whoever asks for an image chooses the name; the grammar of references lets none of these through. */
	if (!*registry || *registry == '.' || strchr(registry, '/'))
		return err_set(err, -EINVAL, "'%.100s' is not a registry's host name", registry);
	r = path_format(path, err, "%s/%s", dir, registry);
	if (r)
		return r;
	d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : err_errno(err, -errno, "cannot open the directory '%.300s' with the certificates of a registry", path);
	r = read_directory(d, path, &ca, first, err);
	if (!r && ca.len)
		r = oci_sealed_file("certificate authorities", &ca, &c.ca_fd, err);
	if (!r && *first)
		r = read_client(dirfd(d), path, first, &c, err);
	if (r)
		oci_certs_close(&c);
	else
		*ret = c;
	return r;
}

void oci_certs_close(struct oci_certs *c)
{
	close_fd(&c->ca_fd);
	close_fd(&c->cert_fd);
	close_fd(&c->key_fd);
}
