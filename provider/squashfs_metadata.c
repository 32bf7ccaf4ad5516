/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes, directories and tables of a squashfs file. */
#include "sink_squashfs.h"
#include "base/cleanup.h"

#include <sqfs/dir_writer.h>
#include <sqfs/id_table.h>
#include <sqfs/meta_writer.h>
#include <sqfs/xattr_writer.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ID_SLOTS 4096 /* the library's own look-up is linear */

struct metadata {
	struct sink_squashfs *s;
	struct tree *t;
	sqfs_meta_writer_t *inodes, *dirs;
	sqfs_dir_writer_t *dir;
	sqfs_id_table_t *ids;
	sqfs_xattr_writer_t *xattrs;
	uint32_t *links;    /* names of each journal entry's inode */
	uint64_t *refs;     /* where it was written, plus one */
	uint32_t n_inodes;
	struct {
		uint32_t id;
		uint32_t index; /* plus one */
	} id_cache[ID_SLOTS];
	struct edera_error *err;
};

static void metadata_free(struct metadata **mp)
{
	struct metadata *m = *mp;

	if (!m)
		return;
	sqfs_destroy(m->dir);
	sqfs_destroy(m->inodes);
	sqfs_destroy(m->dirs);
	sqfs_destroy(m->ids);
	sqfs_destroy(m->xattrs);
	free(m->links);
	free(m->refs);
	free(m);
}

static int fail(struct metadata *m, int r, const char *doing) { return squashfs_error(m->s, r, doing, m->err); }

/* Numbers inodes from 1 in the order of the tree and counts the names of each. */
static int number_inodes(struct metadata *m, uint32_t dir)
{
	_free_ uint32_t *list = NULL;
	uint32_t n;
	int r = sink_children(m->t, dir, &list, &n, m->err);

	if (r)
		return r;
	tree_node(m->t, dir)->number = ++m->n_inodes;
	for (uint32_t i = 0; i < n; i++) {
		struct node *c = tree_node(m->t, list[i]);
		struct entry *e = tree_inode(m->t, c);

		if (!e || e->type == ENTRY_DIR) {
			r = number_inodes(m, list[i]);
			if (r)
				return r;
		} else if (m->links[c->ino - INO_ENTRY]++ == 0) {
			e->inode = ++m->n_inodes;
		}
	}
	return 0;
}

static int id_index(struct metadata *m, uint32_t id, sqfs_u16 *ret)
{
	uint32_t slot = (id * 2654435761u) >> 20;

	if (m->id_cache[slot].index == 0 || m->id_cache[slot].id != id) {
		int r = sqfs_id_table_id_to_index(m->ids, id, ret);

		if (r)
			return fail(m, r, "writing owners");
		m->id_cache[slot].id = id;
		m->id_cache[slot].index = *ret + 1u;
	}
	*ret = (sqfs_u16)(m->id_cache[slot].index - 1);
	return 0;
}

static int xattr_index(struct metadata *m, const struct entry *e, uint32_t *ret)
{
	const uint8_t *p, *end;
	uint32_t len;
	char name[256];
	int r;

	*ret = 0xffffffffu;
	if (!e || !e->xattrs)
		return 0;
	memcpy(&len, tree_text(m->t, e->xattrs), sizeof len);
	p = (const uint8_t *)tree_text(m->t, e->xattrs) + sizeof len;
	end = p + len;
	r = sqfs_xattr_writer_begin(m->xattrs, 0);
	while (!r && p < end) {
		uint16_t k;
		uint32_t v;

		memcpy(&k, p, sizeof k);
		memcpy(&v, p + sizeof k, sizeof v);
		memcpy(name, p + 6, k);
		name[k] = 0;
		r = sqfs_xattr_writer_add(m->xattrs, name, p + 6 + k, v);
		p += 6 + k + v;
	}
	if (!r)
		r = sqfs_xattr_writer_end(m->xattrs, ret);
	return r ? fail(m, r, "writing extended attributes") : 0;
}

/* Owner, mode, time, number, attributes: then the inode is written and its place given. */
static int write_inode(struct metadata *m, sqfs_inode_generic_t *ino, const struct entry *e, uint32_t number, uint64_t *ret_ref)
{
	bool holes = false;
	uint32_t xattr, offset;
	uint64_t block;
	int r = id_index(m, e ? e->uid : 0, &ino->base.uid_idx);

	if (!r)
		r = id_index(m, e ? e->gid : 0, &ino->base.gid_idx);
	if (!r)
		r = xattr_index(m, e, &xattr);
	if (r)
		return r;
	ino->base.mode = e ? e->mode : 0755;
	ino->base.mod_time = e ? e->mtime : 0;
	ino->base.inode_number = number;
	if (e && e->type == ENTRY_FILE && (r = squashfs_holes_inode(m->s, e->data, ino, &holes)))
		return fail(m, r, "writing an inode");
	if (xattr != 0xffffffffu && (r = sqfs_inode_set_xattr_index(ino, xattr)))
		return fail(m, r, "writing an inode");
	sqfs_meta_writer_get_position(m->inodes, &block, &offset);
	r = holes ? squashfs_holes_write(m->s, e->data, ino, m->inodes) : sqfs_meta_writer_write_inode(m->inodes, ino);
	if (r)
		return fail(m, r, "writing an inode");
	*ret_ref = block << 16 | offset;
	return 0;
}

/* A new inode of anything but a file or directory. */
static sqfs_inode_generic_t *other_inode(struct metadata *m, const struct entry *e, uint32_t links)
{
	static const uint16_t types[] = {
		[ENTRY_SYMLINK] = SQFS_INODE_SLINK, [ENTRY_CHAR] = SQFS_INODE_CDEV, [ENTRY_BLOCK] = SQFS_INODE_BDEV, [ENTRY_FIFO] = SQFS_INODE_FIFO,
	};
	const char *target = e->type == ENTRY_SYMLINK ? tree_text(m->t, e->text) : "";
	size_t n = strlen(target);
	sqfs_inode_generic_t *ino = calloc(1, sizeof *ino + n + 1);

	if (!ino)
		return NULL;
	ino->base.type = types[e->type];
	switch (e->type) {
	case ENTRY_SYMLINK:
		ino->data.slink.nlink = links;
		ino->data.slink.target_size = (sqfs_u32)n;
		memcpy(ino->extra, target, n);
		ino->payload_bytes_used = ino->payload_bytes_available = (sqfs_u32)n;
		break;
	case ENTRY_FIFO:
		ino->data.ipc.nlink = links;
		break;
	default:
		ino->data.dev.nlink = links;
		ino->data.dev.devno = e->device;
	}
	return ino;
}

/* A copy of what libsquashfs made of a file, or of an earlier one with the same content. */
static sqfs_inode_generic_t *file_inode(struct metadata *m, uint32_t file)
{
	uint32_t first = *(uint32_t *)table_at(&m->s->firsts, file);
	const sqfs_inode_generic_t *from = *(sqfs_inode_generic_t **)table_at(&m->s->inodes, first ? first - 1 : file);
	sqfs_inode_generic_t *to = malloc(sizeof *to + from->payload_bytes_used);

	if (!to)
		return NULL;
	memcpy(to, from, sizeof *to + from->payload_bytes_used);
	to->payload_bytes_available = from->payload_bytes_used;
	return to;
}

static int write_leaf(struct metadata *m, uint32_t index, uint64_t *ret_ref)
{
	struct entry *e = tree_entry(m->t, index);
	sqfs_inode_generic_t *ino;
	int r = 0;

	if (m->refs[index]) {
		*ret_ref = m->refs[index] - 1;
		return 0;
	}
	if (e->type == ENTRY_FILE && e->data >= m->s->inodes.count)
		return err_set(m->err, -EIO, "a file of the image was never read");
	ino = e->type == ENTRY_FILE ? file_inode(m, e->data) : other_inode(m, e, m->links[index]);
	if (!ino)
		return err_errno(m->err, -ENOMEM, "cannot make an inode");
	if (e->type == ENTRY_FILE && m->links[index] > 1) {
		r = sqfs_inode_make_extended(ino);
		ino->data.file_ext.nlink = m->links[index];
	}
	r = r ? fail(m, r, "writing an inode") : write_inode(m, ino, e, e->inode, ret_ref);
	free(ino);
	m->refs[index] = *ret_ref + 1;
	return r;
}

static uint16_t type_bits(const struct entry *e)
{
	static const uint16_t bits[] = {
		[ENTRY_FILE] = S_IFREG & 0xffff, [ENTRY_DIR] = S_IFDIR, [ENTRY_SYMLINK] = S_IFLNK & 0xffff, [ENTRY_CHAR] = S_IFCHR,
		[ENTRY_BLOCK] = S_IFBLK, [ENTRY_FIFO] = S_IFIFO,
	};

	return e ? (uint16_t)(bits[e->type] | e->mode) : (uint16_t)(S_IFDIR | 0755);
}

static int write_dir(struct metadata *m, uint32_t dir, uint64_t *ret_ref);

/* Children before their directory, as it refers to where they are. */
static int write_children(struct metadata *m, const uint32_t *list, uint32_t n, uint64_t *refs, uint32_t *ret_dirs)
{
	for (uint32_t i = 0; i < n; i++) {
		struct node *c = tree_node(m->t, list[i]);
		struct entry *e = tree_inode(m->t, c);
		bool is_dir = !e || e->type == ENTRY_DIR;
		int r = is_dir ? write_dir(m, list[i], &refs[i]) : write_leaf(m, c->ino - INO_ENTRY, &refs[i]);

		if (r)
			return r;
		*ret_dirs += is_dir;
	}
	return 0;
}

static int write_dir(struct metadata *m, uint32_t dir, uint64_t *ret_ref)
{
	struct node *d = tree_node(m->t, dir);
	_free_ uint32_t *list = NULL;
	_free_ uint64_t *refs = NULL;
	sqfs_inode_generic_t *ino;
	uint32_t n, dirs = 0;
	int r = sink_children(m->t, dir, &list, &n, m->err);

	if (r)
		return r;
	refs = malloc((n ? n : 1) * sizeof *refs);
	if (!refs)
		return err_errno(m->err, -ENOMEM, "cannot write a directory");
	r = write_children(m, list, n, refs, &dirs);
	if (r)
		return r;
	r = sqfs_dir_writer_begin(m->dir, 0);
	for (uint32_t i = 0; i < n && !r; i++) {
		struct node *c = tree_node(m->t, list[i]);
		struct entry *e = tree_inode(m->t, c);
		uint32_t number = !e || e->type == ENTRY_DIR ? c->number : e->inode;

		r = sqfs_dir_writer_add_entry(m->dir, tree_text(m->t, c->name), number, refs[i], type_bits(e));
	}
	if (!r)
		r = sqfs_dir_writer_end(m->dir);
	if (r)
		return fail(m, r, "writing a directory");
	ino = sqfs_dir_writer_create_inode(m->dir, 0, 0xffffffffu, dir == TREE_ROOT ? m->n_inodes + 1 : tree_node(m->t, d->parent)->number);
	if (!ino)
		return err_errno(m->err, -ENOMEM, "cannot write a directory");
	if (ino->base.type == SQFS_INODE_DIR)
		ino->data.dir.nlink = 2 + dirs;
	else
		ino->data.dir_ext.nlink = 2 + dirs;
	r = write_inode(m, ino, tree_inode(m->t, d), d->number, ret_ref);
	sqfs_free(ino);
	return r;
}

static int write_tables(struct metadata *m)
{
	struct sink_squashfs *s = m->s;
	sqfs_file_t *f = &s->file.base;
	uint8_t zeros[SQFS_DEVBLK_SIZE] = { 0 };
	uint64_t rest;
	int r;

	r = sqfs_meta_writer_flush(m->inodes);
	if (!r)
		r = sqfs_meta_writer_flush(m->dirs);
	s->super.directory_table_start = f->get_size(f);
	if (!r)
		r = sqfs_meta_write_write_to_file(m->dirs);
	s->super.inode_count = m->n_inodes;
	if (!r)
		r = sqfs_frag_table_write(s->fragments, f, &s->super, s->compressor);
	/* With it there are file handles: NFS and overlayfs ask for them. */
	if (!r)
		r = sqfs_dir_writer_write_export_table(m->dir, f, s->compressor, tree_node(m->t, TREE_ROOT)->number, s->super.root_inode_ref, &s->super);
	if (!r)
		r = sqfs_id_table_write(m->ids, f, &s->super, s->compressor);
	if (!r)
		r = sqfs_xattr_writer_flush(m->xattrs, f, &s->super, s->compressor);
	s->super.bytes_used = f->get_size(f);
	if (!r)
		r = sqfs_super_write(&s->super, f);
	rest = s->super.bytes_used % SQFS_DEVBLK_SIZE;
	if (!r && rest)
		r = f->write_at(f, s->super.bytes_used, zeros, SQFS_DEVBLK_SIZE - rest);
	return r ? fail(m, r, "writing its tables") : 0;
}

int squashfs_metadata(struct sink_squashfs *s, struct tree *t, struct edera_error *err)
{
	_cleanup_(metadata_free) struct metadata *m = calloc(1, sizeof *m);
	sqfs_file_t *f = &s->file.base;
	int r;

	if (!m)
		return err_errno(err, -ENOMEM, "cannot write an image's metadata");
	m->s = s;
	m->t = t;
	m->err = err;
	m->links = calloc(t->entries.count + 1, sizeof *m->links);
	m->refs = calloc(t->entries.count + 1, sizeof *m->refs);
	m->ids = sqfs_id_table_create(0);
	m->xattrs = sqfs_xattr_writer_create(0);
	m->inodes = sqfs_meta_writer_create(f, s->compressor, 0);
	m->dirs = sqfs_meta_writer_create(f, s->compressor, SQFS_META_WRITER_KEEP_IN_MEMORY);
	m->dir = m->dirs ? sqfs_dir_writer_create(m->dirs, SQFS_DIR_WRITER_CREATE_EXPORT_TABLE) : NULL;
	if (!m->links || !m->refs || !m->ids || !m->xattrs || !m->inodes || !m->dir)
		return err_errno(err, -ENOMEM, "cannot write an image's metadata");
	s->super.inode_table_start = f->get_size(f);
	r = number_inodes(m, TREE_ROOT);
	if (!r)
		r = write_dir(m, TREE_ROOT, &s->super.root_inode_ref);
	return r ? r : write_tables(m);
}
