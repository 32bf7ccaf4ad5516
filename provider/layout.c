/* SPDX-License-Identifier: Apache-2.0 */
/* Images on this machine: an OCI image layout as a directory or a tar file, and what `docker save` writes. */
#include "archive_file.h"
#include "archive_index.h"
#include "docker_archive.h"
#include "io.h"
#include "layout_index.h"
#include "source.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOCKER_IMAGES_MAX 64 /* among which one is looked for by its digest */

struct layout {
	struct source source;
	struct origin origin;
	int fd;                         /* directory or archive */
	struct archive_index *archive;  /* NULL for a directory */
	bool saved;                     /* an archive of `docker save`, not of a layout */
	struct docker_archive docker;
	json_object *names;             /* of the image in a layout */
	char where[4100];               /* for messages */
	bool aborted;
};

/* One file of it. */
struct part {
	int fd;
	uint64_t offset, size;
	bool owned;
};

static void part_close(struct part *p)
{
	if (p->owned)
		close(p->fd);
}

static int part_open(struct layout *l, const char *path, struct part *ret, struct edera_error *err)
{
	struct archive_file f;
	struct stat st;

	if (l->archive) {
		if (archive_index_find(l->archive, path, &f))
			return err_set(err, -ENOENT, "%.202s holds no file '%.150s'", l->where, path);
		*ret = (struct part){ .fd = l->fd, .offset = f.offset, .size = f.size };
		return 0;
	}
	ret->fd = openat(l->fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (ret->fd < 0 && errno == ELOOP)
		return err_set(err, -ELOOP, "'%.200s/%.150s' is a symlink, which may lead anywhere: copy the layout so that it holds the files themselves", l->origin.file, path);
	if (ret->fd < 0)
		return err_errno(err, -errno, "cannot open '%.200s/%.150s'", l->origin.file, path);
	if (fstat(ret->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(ret->fd);
		return err_set(err, -EBADMSG, "'%.200s/%.150s' is not a regular file", l->origin.file, path);
	}
	(void)!posix_fadvise(ret->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	*ret = (struct part){ .fd = ret->fd, .size = (uint64_t)st.st_size, .owned = true };
	return 0;
}

/* Up to n bytes; 0 at the end. */
static ssize_t part_read(struct part *p, void *to, size_t n)
{
	ssize_t got;

	if (n > p->size)
		n = (size_t)p->size;
	do
		got = n ? pread(p->fd, to, n, (off_t)p->offset) : 0;
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	p->offset += (uint64_t)got;
	p->size -= (uint64_t)got;
	return got;
}

static int read_whole(struct layout *l, const char *path, size_t max, struct buf *ret, struct edera_error *err)
{
	_cleanup_(part_close) struct part p = { .fd = -1 };
	_buf_ struct buf b = BUF_INIT;
	int r = part_open(l, path, &p, err);

	if (r)
		return r;
	if (p.size > max)
		return err_set(err, -EFBIG, "'%.150s' in %.202s is larger than the %zu bytes allowed", path, l->where, max);
	if (buf_reserve(&b, (size_t)p.size))
		return err_errno(err, -ENOMEM, "cannot read '%.200s'", path);
	while (p.size > 0) {
		ssize_t n = part_read(&p, b.data + b.len, (size_t)p.size);

		if (n <= 0)
			return err_errno(err, n < 0 ? (int)n : -EBADMSG, "cannot read '%.150s' in %.202s", path, l->where);
		b.len += (size_t)n;
	}
	b.data[b.len] = 0;
	*ret = b;
	b = (struct buf)BUF_INIT;
	return 0;
}

static void blob_path(struct layout *l, const char *digest, char dst[4096])
{
	const char *hex = strchr(digest, ':') + 1;

	if (!docker_archive_path(&l->docker, digest, dst))
		snprintf(dst, 4096, "blobs/%.*s/%s", (int)(hex - digest - 1), digest, hex);
}

static int read_blob(struct layout *l, const char *digest, size_t max, struct buf *ret, struct edera_error *err)
{
	char path[4096], found[DIGEST_MAX];
	int r;

	blob_path(l, digest, path);
	r = read_whole(l, path, max, ret, err);
	if (!r)
		r = digest_of(ret->data, ret->len, digest, found, err);
	if (!r && strcmp(found, digest))
		r = err_set(err, -EBADMSG, "the blob %s of %.202s is damaged: its bytes have the digest %s", digest, l->where, found);
	return r;
}

static int layout_blob(struct source *s, const struct descriptor *d, struct buf *ret, struct edera_error *err)
{
	return read_blob((struct layout *)s, d->digest, d->size, ret, err);
}

/* The manifest of the image that was chosen, made from the digests of its files. */
static int docker_make_manifest(struct layout *l, const char *config_path, struct buf *ret, char ret_digest[DIGEST_MAX], struct edera_error *err)
{
	_buf_ struct buf config = BUF_INIT;
	char path[4096];
	int r = read_whole(l, config_path, CONFIG_MAX, &config, err);

	if (!r)
		r = docker_archive_config(&l->docker, config_path, &config, err);
	for (uint32_t i = 0; !r && (r = docker_archive_next(&l->docker, i, path)) == 1; i++) {
		_cleanup_(part_close) struct part p = { .fd = -1 };
		uint8_t buffer[65536];
		ssize_t n = 0;

		r = part_open(l, path, &p, err);
		if (!r && docker_archive_layer_again(&l->docker, i, p.offset))
			continue;
		if (!r)
			r = docker_archive_layer_begin(&l->docker, i, p.size, err);
		while (!r && (n = part_read(&p, buffer, sizeof buffer)) > 0)
			r = docker_archive_layer_data(&l->docker, buffer, (size_t)n);
		if (!r && n < 0)
			r = err_errno(err, (int)n, "cannot read '%.150s' in %.202s", path, l->where);
		if (!r)
			r = docker_archive_layer_end(&l->docker, i);
	}
	if (!r)
		r = docker_archive_manifest(&l->docker, ret, err);
	return r ? r : digest_of(ret->data, ret->len, "sha256:", ret_digest, err);
}

/* The list has no digests, so each image's is computed until it is the one. */
static int docker_find_digest(struct layout *l, const struct buf *list, struct buf *ret, char ret_digest[DIGEST_MAX], struct edera_error *err)
{
	char path[4096];
	int r = 0;

	for (size_t i = 0; !r && i < DOCKER_IMAGES_MAX; i++) {
		buf_clear(ret);
		docker_archive_free(&l->docker);
		l->docker = (struct docker_archive){ .n_layers = 0 };
		r = docker_archive_nth(&l->docker, list->data, list->len, i, path, err);
		if (r == -ENOENT)
			break;
		if (!r)
			r = docker_make_manifest(l, path, ret, ret_digest, err);
		if (!r && !strcmp(ret_digest, l->origin.digest))
			return 0;
	}
	return r && r != -ENOENT ? r : err_set(err, -ENOENT, "%.202s holds no image with the digest %s", l->where, l->origin.digest);
}

static int docker_manifest(struct layout *l, struct buf *ret, char ret_digest[DIGEST_MAX], struct edera_error *err)
{
	_buf_ struct buf list = BUF_INIT;
	char path[4096];
	int r = read_whole(l, "manifest.json", MANIFEST_MAX, &list, err);

	if (!r && l->origin.digest[0] && !l->origin.name[0])
		return docker_find_digest(l, &list, ret, ret_digest, err);
	if (!r)
		r = docker_archive_choose(&l->docker, list.data, list.len, l->origin.name, l->origin.kind == ORIGIN_ARCHIVE, path, err);
	if (!r)
		r = docker_make_manifest(l, path, ret, ret_digest, err);
	if (!r && l->origin.digest[0] && strcmp(l->origin.digest, ret_digest))
		r = err_set(err, -EBADMSG, "the image in %.202s has the digest %s, not %s", l->where, ret_digest, l->origin.digest);
	return r;
}

/* What index.json calls the image; where the digest is known already, it may be that of a manifest further down. */
static int layout_image(struct layout *l, char digest[DIGEST_MAX], struct edera_error *err)
{
	_buf_ struct buf text = BUF_INIT;
	_json_ json_object *index = NULL;
	int r = read_whole(l, "index.json", MANIFEST_MAX, &text, err);

	if (r)
		return err_wrap(err, "%.202s is not an OCI image layout", l->where);
	r = json_read(text.data, text.len, &index, err);
	if (!r && l->origin.digest[0])
		strcpy(digest, l->origin.digest);
	else if (!r)
		r = layout_index_choose(index, &l->origin, l->where, digest, err);
	if (r)
		return err_wrap(err, "index.json of %.202s", l->where);
	json_object_put(l->names);
	l->names = json_object_new_array();
	layout_index_names(index, digest, l->names);
	return 0;
}

static int layout_manifest(struct source *s, const char *digest, struct buf *ret, char ret_digest[DIGEST_MAX], struct edera_error *err)
{
	struct layout *l = (struct layout *)s;
	int r = 0;

	if (!digest && l->saved)
		return docker_manifest(l, ret, ret_digest, err);
	if (digest || (l->origin.digest[0] && l->origin.kind != ORIGIN_ARCHIVE))
		strcpy(ret_digest, digest ? digest : l->origin.digest);
	else
		r = layout_image(l, ret_digest, err);
	if (r)
		return r;
	r = read_blob(l, ret_digest, MANIFEST_MAX, ret, err);
	return r == -ENOENT && !digest ? err_set(err, r, "%.202s holds no image with the digest %s", l->where, ret_digest) : r;
}

static json_object *layout_names(struct source *s)
{
	struct layout *l = (struct layout *)s;

	return l->saved ? l->docker.names : l->names;
}

static int fetch_one(struct layout *l, struct fetch *f, uint8_t *buffer, struct edera_error *err)
{
	_cleanup_(part_close) struct part p = { .fd = -1 };
	char path[4096];
	int r;

	blob_path(l, f->what->digest, path);
	r = part_open(l, path, &p, err);
	if (!r)
		r = fetch_begin(f, err);
	while (!r) {
		ssize_t n = part_read(&p, buffer, BLOB_CHUNK_SIZE);

		if (__atomic_load_n(&l->aborted, __ATOMIC_ACQUIRE))
			return err_set(err, -ECANCELED, "the pull was ended");
		if (n < 0)
			return err_errno(err, (int)n, "cannot read the blob %s of %.202s", f->what->digest, l->where);
		if (n == 0)
			return fetch_end(f, err);
		r = fetch_put_wait(f, buffer, (size_t)n, err);
	}
	return r;
}

static int layout_fetch(struct source *s, struct fetch **list, uint32_t n, struct edera_error *err)
{
	_free_ uint8_t *buffer = malloc(BLOB_CHUNK_SIZE);
	int r = 0;

	if (!buffer)
		return err_errno(err, -ENOMEM, "cannot read blobs");
	for (uint32_t i = 0; i < n && !r; i++)
		r = fetch_one((struct layout *)s, list[i], buffer, err);
	return r;
}

static void layout_abort(struct source *s) { __atomic_store_n(&((struct layout *)s)->aborted, true, __ATOMIC_RELEASE); }

static void layout_free(struct source *s)
{
	struct layout *l = (struct layout *)s;

	docker_archive_free(&l->docker);
	archive_index_free(l->archive);
	json_object_put(l->names);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

static const struct source_ops layout_ops = {
	.manifest = layout_manifest, .blob = layout_blob, .fetch = layout_fetch, .abort = layout_abort, .names = layout_names, .free = layout_free,
};

static bool has_file(const struct layout *l, const char *name)
{
	struct archive_file f;

	return archive_index_find(l->archive, name, &f) == 0;
}

static int open_archive(struct layout *l, const struct options *o, struct edera_error *err)
{
	int r = archive_file_open(&l->origin, o, &l->fd, err);

	if (!r)
		r = archive_index_new(l->fd, l->where, &l->archive, err);
	if (r)
		return r;
	/* Recent ones of docker are both, and then the manifests are real. */
	l->saved = l->origin.kind == ORIGIN_DOCKER_ARCHIVE || (l->origin.kind == ORIGIN_ARCHIVE && !has_file(l, "index.json"));
	if (l->origin.kind == ORIGIN_ARCHIVE && l->saved && !has_file(l, "manifest.json"))
		return err_set(err, -EBADMSG, "%.202s is no image archive: it holds neither an index.json, as OCI's do, nor a manifest.json, as those of docker do", l->where);
	return 0;
}

static int open_directory(struct layout *l, struct edera_error *err)
{
	l->fd = open(l->origin.file, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return l->fd < 0 ? err_errno(err, -errno, "cannot open the image layout '%.300s'", l->origin.file) : 0;
}

int source_layout_new(const struct origin *origin, const struct options *o, struct source **ret, struct edera_error *err)
{
	struct layout *l = calloc(1, sizeof *l);
	int r;

	if (!l)
		return err_errno(err, -ENOMEM, "cannot open '%.200s'", origin->file);
	l->source.ops = &layout_ops;
	l->origin = *origin;
	archive_file_name(&l->origin, l->where);
	l->fd = -1;
	r = origin->kind == ORIGIN_LAYOUT ? open_directory(l, err) : open_archive(l, o, err);
	if (r) {
		layout_free(&l->source);
		return r;
	}
	*ret = &l->source;
	return 0;
}
