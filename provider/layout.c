/* SPDX-License-Identifier: Apache-2.0 */
/* An OCI image layout directory as a source. */
#include "source.h"
#include "io.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct layout {
	struct source source;
	struct origin ref;
	int dir;
	bool aborted;
};

static int open_blob(struct layout *l, const char *digest, struct edera_error *err)
{
	char path[DIGEST_MAX + 16];
	const char *hex = strchr(digest, ':') + 1;
	struct stat st;
	int fd;

	snprintf(path, sizeof path, "blobs/%.*s/%s", (int)(hex - digest - 1), digest, hex);
	fd = openat(l->dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return err_errno(err, -errno, "cannot open the blob %s of '%.200s'", digest, l->ref.file);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(err, -EBADMSG, "the blob %s of '%.200s' is not a regular file", digest, l->ref.file);
	}
	return fd;
}

static int read_blob(struct layout *l, const char *digest, size_t max, struct buf *ret, struct edera_error *err)
{
	_close_ int fd = open_blob(l, digest, err);
	char found[DIGEST_MAX];
	int r;

	if (fd < 0)
		return fd;
	r = io_read_all(fd, max, ret, digest, err);
	if (!r)
		r = digest_of(ret->data, ret->len, digest, found, err);
	if (!r && strcmp(found, digest))
		r = err_set(err, -EBADMSG, "the blob %s of '%.150s' is damaged: its bytes have the digest %s", digest, l->ref.file, found);
	return r;
}

static int layout_blob(struct source *s, const struct descriptor *d, struct buf *ret, struct edera_error *err)
{
	return read_blob((struct layout *)s, d->digest, d->size, ret, err);
}

/* The entry of index.json with the tag; the only one, if no tag was named. */
static int choose(struct layout *l, json_object *index, char ret[DIGEST_MAX], struct edera_error *err)
{
	json_object *list = json_member(index, "manifests", json_type_array), *found = NULL;
	size_t n = list ? json_object_array_length(list) : 0;
	struct descriptor d;
	int r;

	for (size_t i = 0; i < n; i++) {
		json_object *e = json_object_array_get_idx(list, i), *a = json_member(e, "annotations", json_type_object);
		const char *name = a ? json_text(a, "org.opencontainers.image.ref.name") : NULL;
		const char *full = a ? json_text(a, "io.containerd.image.name") : NULL;

		if (!l->ref.tag[0] ? n == 1 : (name && !strcmp(name, l->ref.tag)) || (full && !strcmp(full, l->ref.tag)))
			found = e;
	}
	if (!found && !l->ref.tag[0])
		return err_set(err, -ENOENT, "'%.200s' holds %zu images; name one by its tag, as in oci:DIR:TAG", l->ref.file, n);
	if (!found)
		return err_set(err, -ENOENT, "'%.200s' holds no image with the tag '%s'", l->ref.file, l->ref.tag);
	r = descriptor_parse(found, &d, err);
	if (!r)
		strcpy(ret, d.digest);
	return r;
}

static int layout_manifest(struct source *s, const char *digest, struct buf *ret, char ret_digest[DIGEST_MAX], struct edera_error *err)
{
	struct layout *l = (struct layout *)s;
	_buf_ struct buf text = BUF_INIT;
	_json_ json_object *index = NULL;
	int r;

	if (digest || l->ref.digest[0]) {
		strcpy(ret_digest, digest ? digest : l->ref.digest);
		return read_blob(l, ret_digest, MANIFEST_MAX, ret, err);
	}
	_close_ int fd = openat(l->dir, "index.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return err_errno(err, -errno, "'%.200s' is not an OCI image layout: cannot open index.json", l->ref.file);
	r = io_read_all(fd, MANIFEST_MAX, &text, "index.json", err);
	if (!r)
		r = json_read(text.data, text.len, &index, err);
	if (!r)
		r = choose(l, index, ret_digest, err);
	return r ? err_wrap(err, "oci:%.200s", l->ref.file) : read_blob(l, ret_digest, MANIFEST_MAX, ret, err);
}

static int fetch_one(struct layout *l, struct fetch *f, uint8_t *buffer, struct edera_error *err)
{
	_close_ int fd = open_blob(l, f->what->digest, err);
	int r;

	if (fd < 0)
		return fd;
	r = fetch_begin(f, err);
	(void)!posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	while (!r) {
		ssize_t n = read(fd, buffer, BLOB_CHUNK_SIZE);

		if (__atomic_load_n(&l->aborted, __ATOMIC_ACQUIRE))
			return err_set(err, -ECANCELED, "the pull was ended");
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, -errno, "cannot read the blob %s of '%.200s'", f->what->digest, l->ref.file);
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
	close(((struct layout *)s)->dir);
	free(s);
}

static const struct source_ops layout_ops = {
	.manifest = layout_manifest, .blob = layout_blob, .fetch = layout_fetch, .abort = layout_abort, .free = layout_free,
};

int source_layout_new(const struct origin *ref, const struct options *o, struct source **ret, struct edera_error *err)
{
	struct layout *l = calloc(1, sizeof *l);

	if (!l)
		return err_errno(err, -ENOMEM, "cannot open '%.200s'", ref->file);
	l->source.ops = &layout_ops;
	l->ref = *ref;
	l->dir = open(ref->file, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (l->dir < 0) {
		int e = -errno;

		free(l);
		return err_errno(err, e, "cannot open the image layout '%.300s'", ref->file);
	}
	*ret = &l->source;
	return 0;
}
