/* SPDX-License-Identifier: Apache-2.0 */
/* The merged image as one tar: content is kept in a file without a name until the tree says where it belongs. PAX headers carry what ustar
 * has no room for; entries are sorted, parents first, so the same image gives the same bytes. */
#include "sink.h"
#include "io.h"
#include "packer.h"
#include "base/buf.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 512
#define COPY (256u << 10)

struct content {
	uint64_t offset, size;
	uint32_t left;         /* inodes with it that are not written yet; more than one where a layer is in the image twice */
};

struct sink_tar {
	struct sink sink;
	int out, store;
	struct packer *packer; /* where it goes, or NULL: to `out` */
	uint64_t max_size;
	uint64_t end;          /* of what is stored */
	struct table contents; /* struct content */
	struct content *open;
	/* While the tar is written. */
	struct tree *t;
	uint32_t *first;       /* of each journal entry: node that names it first, plus one */
	struct buf buffer;     /* output not yet written */
	struct edera_error *err;
};

static int tar_begin(struct sink *sink, uint64_t size, uint32_t *ret, struct edera_error *err)
{
	struct sink_tar *s = (struct sink_tar *)sink;

	if (table_add(&s->contents, 1, ret))
		return err_set(err, -E2BIG, "the image has more than the %u files allowed (--max-entries)", s->contents.max);
	s->open = table_at(&s->contents, *ret);
	s->open->offset = s->end;
	return 0;
}

static int tar_data_in(struct sink *sink, const void *data, uint64_t n, struct edera_error *err)
{
	struct sink_tar *s = (struct sink_tar *)sink;
	int r = 0;

	if (n > s->max_size - s->end)
		return err_set(err, -EFBIG, "the files take more than the %llu bytes allowed (--max-size)", (unsigned long long)s->max_size);
	/* A hole in the store reads as zeros. */
	if (data && lseek(s->store, (off_t)s->end, SEEK_SET) < 0)
		r = -errno;
	if (data && !r)
		r = io_write_all(s->store, data, n);
	s->end += n;
	s->open->size += n;
	return r ? err_errno(err, r, "cannot keep the content of a file") : 0;
}

static int tar_end_file(struct sink *sink, struct edera_error *err) { return 0; }

static int flush(struct sink_tar *s)
{
	int r = s->buffer.failed ? -ENOMEM : 0;

	if (!r && s->packer) {
		r = packer_write(s->packer, s->buffer.data, s->buffer.len, s->err);
		buf_clear(&s->buffer);
		return r;
	}
	if (!r)
		r = io_write_all(s->out, s->buffer.data, s->buffer.len);
	buf_clear(&s->buffer);
	return r ? err_errno(s->err, r, "cannot write the tar file") : 0;
}

static void pad(struct sink_tar *s, uint64_t size)
{
	static const uint8_t zeros[BLOCK];

	buf_append(&s->buffer, zeros, (size_t)(-size & (BLOCK - 1)));
}

/* Octal with a NUL; false if it does not fit, and then the PAX record counts. */
static bool octal(uint8_t *field, size_t n, uint64_t v)
{
	for (size_t i = n - 1; i-- > 0; v >>= 3)
		field[i] = (uint8_t)('0' + (v & 7));
	return v == 0;
}

static void record(struct buf *b, const char *key, const void *value, size_t n)
{
	size_t body = strlen(key) + n + 3, len = body + 1;
	char digits[24];

	while (len != body + (size_t)snprintf(digits, sizeof digits, "%zu", len))
		len = body + strlen(digits);
	buf_printf(b, "%s %s=", digits, key);
	buf_append(b, value, n);
	buf_append(b, "\n", 1);
}

static void number_record(struct buf *b, const char *key, uint64_t v)
{
	char text[24];

	record(b, key, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)v));
}

static void xattr_records(const struct tree *t, const struct entry *e, struct buf *b)
{
	const uint8_t *p, *end;
	uint32_t len;

	if (!e || !e->xattrs)
		return;
	memcpy(&len, tree_text(t, e->xattrs), sizeof len);
	p = (const uint8_t *)tree_text(t, e->xattrs) + sizeof len;
	end = p + len;
	while (p < end) {
		char key[300];
		uint16_t k;
		uint32_t v;

		memcpy(&k, p, sizeof k);
		memcpy(&v, p + sizeof k, sizeof v);
		snprintf(key, sizeof key, "SCHILY.xattr.%.*s", (int)k, (const char *)p + 6);
		record(b, key, p + 6 + k, v);
		p += 6 + k + v;
	}
}

static void header(struct sink_tar *s, char type, const char *name, const char *link, uint64_t size, uint32_t mode, uint32_t uid, uint32_t gid, uint32_t mtime,
		   uint32_t major, uint32_t minor)
{
	uint8_t h[BLOCK] = { 0 };
	unsigned sum = 0;

	memcpy(h, name, strnlen(name, 100));
	octal(h + 100, 8, mode);
	octal(h + 108, 8, uid);
	octal(h + 116, 8, gid);
	octal(h + 124, 12, size);
	octal(h + 136, 12, mtime);
	memset(h + 148, ' ', 8);
	h[156] = (uint8_t)type;
	memcpy(h + 157, link, strnlen(link, 100));
	memcpy(h + 257, "ustar\00000", 8);
	octal(h + 329, 8, major);
	octal(h + 337, 8, minor);
	for (int i = 0; i < BLOCK; i++)
		sum += h[i];
	octal(h + 148, 7, sum);
	h[154] = 0;
	buf_append(&s->buffer, h, sizeof h);
}

/* The entry's header, with the extended one before it where it is needed. */
static void describe(struct sink_tar *s, const struct entry *e, char type, const char *name, const char *link, uint64_t size)
{
	_buf_ struct buf pax = BUF_INIT;
	uint32_t uid = e ? e->uid : 0, gid = e ? e->gid : 0, mtime = e ? e->mtime : 0, device = e && (type == '3' || type == '4') ? e->device : 0;
	uint8_t scratch[12];

	if (strlen(name) > 100)
		record(&pax, "path", name, strlen(name));
	if (strlen(link) > 100)
		record(&pax, "linkpath", link, strlen(link));
	if (!octal(scratch, 12, size))
		number_record(&pax, "size", size);
	if (!octal(scratch, 8, uid))
		number_record(&pax, "uid", uid);
	if (!octal(scratch, 8, gid))
		number_record(&pax, "gid", gid);
	if (type != '1')
		xattr_records(s->t, e, &pax);
	if (pax.len) {
		header(s, 'x', "PaxHeaders", "", pax.len, 0644, 0, 0, 0, 0, 0);
		buf_append(&s->buffer, pax.data, pax.len);
		pad(s, pax.len);
	}
	header(s, type, name, link, size, e ? e->mode : 0755, uid, gid, mtime, device >> 8 & 0xfff, (device & 0xff) | (device >> 12 & ~0xffu));
	if (pax.failed)
		s->buffer.failed = true;
}

static void count_uses(struct sink_tar *s)
{
	for (uint32_t i = 0; i < s->t->nodes.count; i++) {
		const struct node *n = tree_node(s->t, i);
		const struct entry *e = tree_inode(s->t, n);

		if (!e || e->type != ENTRY_FILE || e->data >= s->contents.count || s->first[n->ino - INO_ENTRY])
			continue;
		s->first[n->ino - INO_ENTRY] = 1;
		((struct content *)table_at(&s->contents, e->data))->left++;
	}
	memset(s->first, 0, (s->t->entries.count + 1) * sizeof *s->first);
}

/* What is copied need not take space any longer. */
static void give_back(struct sink_tar *s, struct content *c)
{
	if (--c->left == 0 && c->size >= COPY)
		fallocate(s->store, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)c->offset, (off_t)c->size);
}

static int copy_content(struct sink_tar *s, struct content *c)
{
	if (s->packer && packer_reserve(s->packer, c->size, s->err))
		return s->err->code;
	for (uint64_t done = 0; done < c->size;) {
		size_t n = c->size - done < COPY ? (size_t)(c->size - done) : COPY;
		ssize_t got;

		if (buf_reserve(&s->buffer, n))
			return err_errno(s->err, -ENOMEM, "cannot write the tar file");
		got = pread(s->store, s->buffer.data + s->buffer.len, n, (off_t)(c->offset + done));
		if (got <= 0)
			return err_errno(s->err, got < 0 ? -errno : -EIO, "cannot read the content of a file back");
		s->buffer.len += (size_t)got;
		done += (uint64_t)got;
		if (s->buffer.len >= COPY && flush(s))
			return s->err->code;
	}
	pad(s, c->size);
	give_back(s, c);
	return 0;
}

/* Path without a leading slash; directories end in one. Malloc'd. */
static char *path_of(const struct tree *t, uint32_t node, bool dir)
{
	size_t n = 3;
	char *out, *p;

	for (uint32_t at = node; at != TREE_ROOT; at = tree_node(t, at)->parent)
		n += (size_t)tree_node(t, at)->name_len + 1;
	out = malloc(n);
	if (!out)
		return NULL;
	p = out + n;
	*--p = 0;
	if (node == TREE_ROOT) {
		strcpy(out, "./");
		return out;
	}
	if (dir)
		*--p = '/';
	for (uint32_t at = node;;) {
		const struct node *d = tree_node(t, at);

		p -= d->name_len;
		memcpy(p, tree_text(t, d->name), d->name_len);
		at = d->parent;
		if (at == TREE_ROOT)
			break;
		*--p = '/';
	}
	memmove(out, p, strlen(p) + 1);
	return out;
}

static int write_leaf(struct sink_tar *s, uint32_t node)
{
	static const char types[] = { [ENTRY_FILE] = '0', [ENTRY_SYMLINK] = '2', [ENTRY_CHAR] = '3', [ENTRY_BLOCK] = '4', [ENTRY_FIFO] = '6' };
	uint32_t index = tree_node(s->t, node)->ino - INO_ENTRY;
	struct entry *e = tree_entry(s->t, index);
	_free_ char *name = path_of(s->t, node, false), *link = s->first[index] ? path_of(s->t, s->first[index] - 1, false) : NULL;
	struct content *c = e->type == ENTRY_FILE && e->data < s->contents.count ? table_at(&s->contents, e->data) : NULL;

	if (!name || (s->first[index] && !link))
		return err_errno(s->err, -ENOMEM, "cannot write the tar file");
	if (link) {
		describe(s, e, '1', name, link, 0);
		return 0;
	}
	if (e->type == ENTRY_FILE && !c)
		return err_set(s->err, -EIO, "a file of the image was never read");
	s->first[index] = node + 1;
	describe(s, e, types[e->type], name, e->type == ENTRY_SYMLINK ? tree_text(s->t, e->text) : "", c ? c->size : 0);
	return c ? copy_content(s, c) : 0;
}

static int write_dir(struct sink_tar *s, uint32_t dir)
{
	_free_ char *name = path_of(s->t, dir, true);
	_free_ uint32_t *list = NULL;
	uint32_t n;
	int r = name ? sink_children(s->t, dir, &list, &n, s->err) : err_errno(s->err, -ENOMEM, "cannot write the tar file");

	if (r)
		return r;
	describe(s, tree_inode(s->t, tree_node(s->t, dir)), '5', name, "", 0);
	for (uint32_t i = 0; i < n && !r; i++) {
		struct entry *e = tree_inode(s->t, tree_node(s->t, list[i]));

		r = !e || e->type == ENTRY_DIR ? write_dir(s, list[i]) : write_leaf(s, list[i]);
		if (!r && s->buffer.len >= COPY)
			r = flush(s);
	}
	return r;
}

static int tar_finish(struct sink *sink, struct tree *t, struct edera_error *err)
{
	static const uint8_t zeros[2 * BLOCK];
	struct sink_tar *s = (struct sink_tar *)sink;
	int r;

	s->t = t;
	s->err = err;
	s->first = calloc(t->entries.count + 1, sizeof *s->first);
	if (!s->first || ftruncate(s->store, (off_t)s->end) < 0)
		return err_errno(err, s->first ? -errno : -ENOMEM, "cannot write the tar file");
	count_uses(s);
	r = write_dir(s, TREE_ROOT);
	buf_append(&s->buffer, zeros, sizeof zeros);
	if (!r)
		r = flush(s);
	return !r && s->packer ? packer_finish(s->packer, err) : r;
}

static void tar_free_sink(struct sink *sink)
{
	struct sink_tar *s = (struct sink_tar *)sink;

	table_free(&s->contents);
	buf_free(&s->buffer);
	free(s->first);
	free(s);
}

static const struct sink_ops tar_ops = { .begin = tar_begin, .data = tar_data_in, .end = tar_end_file, .finish = tar_finish, .free = tar_free_sink };

int sink_tar_new(const struct sink_options *o, struct sink **ret, struct edera_error *err)
{
	struct sink_tar *s;
	int r;

	if (o->store_fd < 0)
		return err_set(err, -EINVAL, "a tar needs a directory for temporary files (--spool-fd)");
	s = calloc(1, sizeof *s);
	if (!s)
		return err_errno(err, -ENOMEM, "cannot make a tar file");
	s->sink.ops = &tar_ops;
	s->out = o->output_fd;
	s->store = o->store_fd;
	s->packer = o->packer;
	s->max_size = o->max_size;
	r = table_init(&s->contents, sizeof(struct content), o->max_files, err);
	if (r) {
		free(s);
		return r;
	}
	*ret = &s->sink;
	return 0;
}
