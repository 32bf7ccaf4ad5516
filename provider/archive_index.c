/* SPDX-License-Identifier: Apache-2.0 */
#include "archive_index.h"
#include "tar.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMBERS_MAX 100000
#define ENTRIES_MAX 1000000 /* directories and the like included */
#define NAMES_MAX (32u << 20) /* bytes of all names and targets */
#define LINKS_MAX 8
#define PIECE (64u << 10)

struct member {
	char *name, *link; /* link: NULL for a file */
	struct archive_file file;
	size_t order;
};

struct archive_index {
	int fd;
	uint64_t size;
	struct member *members;
	size_t n, cap;
	/* While it is read. */
	uint64_t at;
	uint8_t *piece;
	size_t entries, names;
};

static int fill(void *user, const uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	struct archive_index *a = user;
	ssize_t n;

	do
		n = pread(a->fd, a->piece, PIECE, (off_t)a->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_errno(err, -errno, "cannot read it");
	a->at += (uint64_t)n;
	*ret = a->piece;
	*ret_len = (size_t)n;
	return 0;
}

static int by_name(const void *a, const void *b) { return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name); }

/* Of the same name, the last one in the archive first: it counts. */
static int compare(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int c = by_name(a, b);

	return c ? c : (x->order < y->order) - (x->order > y->order);
}

static void keep_last(struct archive_index *a)
{
	size_t kept = 0;

	if (!a->n)
		return;
	qsort(a->members, a->n, sizeof *a->members, compare);
	for (size_t i = 0; i < a->n; i++) {
		if (kept && !by_name(&a->members[kept - 1], &a->members[i])) {
			free(a->members[i].name);
			free(a->members[i].link);
		} else {
			a->members[kept++] = a->members[i];
		}
	}
	a->n = kept;
}

/* Without "." and empty components; "blobs/../x" and the like are left as they are, and never asked for. */
static char *plain_name(const char *name)
{
	char *out = malloc(strlen(name) + 1), *p = out;

	while (out && *name) {
		size_t n = strcspn(name, "/");

		if (n > 0 && !(n == 1 && *name == '.')) {
			if (p != out)
				*p++ = '/';
			memcpy(p, name, n);
			p += n;
		}
		name += n;
		name += *name == '/';
	}
	if (out)
		*p = 0;
	return out;
}

/* A symlink's target seen from the top of the archive. */
static char *resolve(const char *name, const char *target)
{
	char *joined, *out = NULL;
	const char *slash = strrchr(name, '/');
	size_t base = slash ? (size_t)(slash - name) : 0;

	while (!strncmp(target, "../", 3)) {
		while (base > 0 && name[--base] != '/')
			;
		target += 3;
	}
	if (asprintf(&joined, "%.*s/%s", (int)base, name, target) >= 0) {
		out = plain_name(joined);
		free(joined);
	}
	return out;
}

static int add(struct archive_index *a, const struct tar_entry *e, uint64_t offset)
{
	struct member *m;

	if (a->n == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 64;
		struct member *more = realloc(a->members, cap * sizeof *more);

		if (!more)
			return -ENOMEM;
		a->members = more;
		a->cap = cap;
	}
	m = &a->members[a->n];
	*m = (struct member){ .name = plain_name(e->path), .file = { offset, e->size }, .order = a->n };
	if (!m->name)
		return -ENOMEM;
	a->n++;
	if (e->type == TAR_SYMLINK)
		m->link = resolve(m->name, e->link);
	else if (e->type == TAR_HARDLINK)
		m->link = plain_name(e->link);
	return e->type == TAR_FILE || m->link ? 0 : -ENOMEM;
}

static int read_members(struct archive_index *a, struct tar *tar, struct edera_error *err)
{
	struct tar_entry e;
	int r;

	while ((r = tar_next(tar, &e, err)) == 1) {
		if (++a->entries > ENTRIES_MAX)
			return err_set(err, -E2BIG, "it holds more than %d entries", ENTRIES_MAX);
		if (e.type != TAR_FILE && e.type != TAR_SYMLINK && e.type != TAR_HARDLINK)
			continue;
		if (a->n == MEMBERS_MAX)
			return err_set(err, -E2BIG, "it holds more than %d files", MEMBERS_MAX);
		a->names += strlen(e.path) + (e.type == TAR_FILE ? 0 : strlen(e.link));
		if (a->names > NAMES_MAX)
			return err_set(err, -E2BIG, "its names take more than %u MiB", NAMES_MAX >> 20);
		if (e.type == TAR_FILE && tar_sparse(tar))
			return err_set(err, -ENOTSUP, "'%.200s' in it is stored as a sparse file, which no file of an image should be", e.path);
		if (e.type == TAR_FILE && (tar_offset(tar) > a->size || e.size > a->size - tar_offset(tar)))
			return err_set(err, -EBADMSG, "it ends in the middle of '%.200s'", e.path);
		r = add(a, &e, tar_offset(tar));
		if (r)
			return err_errno(err, r, "cannot read it");
		/* Content is not read here: on to where it ends. */
		if (e.type == TAR_FILE)
			a->at = tar_seek_over(tar, a->at);
	}
	return r;
}

int archive_index_new(int fd, const char *name, struct archive_index **ret, struct edera_error *err)
{
	struct archive_index *a = calloc(1, sizeof *a);
	struct tar *tar = a ? tar_new(fill, a) : NULL;
	struct stat st;
	int r;

	if (!tar || !(a->piece = malloc(PIECE))) {
		tar_free(tar);
		archive_index_free(a);
		return err_errno(err, -ENOMEM, "cannot read %.302s", name);
	}
	a->fd = fd;
	r = fstat(fd, &st) < 0 ? err_errno(err, -errno, "cannot read it") : 0;
	a->size = r ? 0 : (uint64_t)st.st_size;
	if (!r)
		r = read_members(a, tar, err);
	tar_free(tar);
	if (r) {
		archive_index_free(a);
		return err_wrap(err, "%.302s is not an archive that can be read", name);
	}
	keep_last(a);
	*ret = a;
	return 0;
}

void archive_index_free(struct archive_index *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++) {
		free(a->members[i].name);
		free(a->members[i].link);
	}
	free(a->members);
	free(a->piece);
	free(a);
}

int archive_index_find(const struct archive_index *a, const char *name, struct archive_file *ret)
{
	for (int links = 0; links < LINKS_MAX; links++) {
		struct member key = { .name = (char *)name }, *m = a->n ? bsearch(&key, a->members, a->n, sizeof key, by_name) : NULL;

		if (!m)
			return -ENOENT;
		if (!m->link) {
			*ret = m->file;
			return 0;
		}
		name = m->link;
	}
	return -ELOOP;
}
