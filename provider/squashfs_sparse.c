/* SPDX-License-Identifier: Apache-2.0 */
/* Holes of sparse files. libsquashfs looks at every block of zeros it is given, which takes a minute for a lastlog of 423 GB. So blocks
 * that are all hole are not given to it: their places are remembered, and its list of blocks is filled up when the inode is written. */
#include "sink_squashfs.h"
#include "base/cleanup.h"

#include <endian.h>
#include <sqfs/meta_writer.h>

#define HOLES_MAX (1u << 22)
#define HOLES_SIZE_MAX SQUASHFS_FILE_MAX /* of all files of an image together */

struct hole {
	uint32_t file;  /* number of its inode */
	uint32_t count; /* blocks */
	uint64_t block; /* the first of them, counted with the holes before it */
};

int squashfs_holes_init(struct sink_squashfs *s, struct edera_error *err) { return table_init(&s->holes, sizeof(struct hole), HOLES_MAX, err); }

void squashfs_holes_begin(struct sink_squashfs *s) { s->position = s->zeros = 0; }

static int feed_zeros(struct sink_squashfs *s, uint64_t n)
{
	static const uint8_t zeros[SQUASHFS_BLOCK_SIZE];

	s->position += n;
	return n ? sqfs_block_processor_append(s->blocks, zeros, n) : 0;
}

static int add_hole(struct sink_squashfs *s, uint64_t blocks, struct edera_error *err)
{
	struct hole *h;
	uint32_t i;

	s->holes_size += blocks * SQUASHFS_BLOCK_SIZE;
	if (s->holes_size > HOLES_SIZE_MAX)
		return err_set(err, -EFBIG, "the holes of sparse files in the image are larger than the %llu TiB allowed", HOLES_SIZE_MAX >> 40);
	if (table_add(&s->holes, 1, &i))
		return err_set(err, -E2BIG, "the sparse files in the image have more than %u holes", HOLES_MAX);
	h = table_at(&s->holes, i);
	*h = (struct hole){ s->inodes.count - 1, (uint32_t)blocks, s->position / SQUASHFS_BLOCK_SIZE };
	s->position += blocks * SQUASHFS_BLOCK_SIZE;
	return 0;
}

int squashfs_holes_settle(struct sink_squashfs *s, struct edera_error *err)
{
	uint64_t head = -s->position & (SQUASHFS_BLOCK_SIZE - 1), n = s->zeros, blocks;
	int r;

	s->zeros = 0;
	if (head > n)
		head = n;
	blocks = (n - head) / SQUASHFS_BLOCK_SIZE;
	r = feed_zeros(s, head);
	if (!r && blocks) {
		int e = add_hole(s, blocks, err);

		if (e)
			return e;
	}
	if (!r)
		r = feed_zeros(s, (n - head) % SQUASHFS_BLOCK_SIZE);
	return r ? squashfs_error(s, r, "packing a sparse file", err) : 0;
}

static uint32_t first_hole(const struct sink_squashfs *s, uint32_t file)
{
	uint32_t low = 0, high = s->holes.count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (((struct hole *)table_at(&s->holes, middle))->file < file)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct hole *hole_of(const struct sink_squashfs *s, uint32_t file, uint32_t at)
{
	const struct hole *h = at < s->holes.count ? table_at(&s->holes, at) : NULL;

	return h && h->file == file ? h : NULL;
}

int squashfs_holes_inode(struct sink_squashfs *s, uint32_t file, sqfs_inode_generic_t *ino, bool *ret_any)
{
	uint64_t blocks = 0;
	uint32_t at = first_hole(s, file);
	int r;

	*ret_any = hole_of(s, file, at) != NULL;
	if (!*ret_any)
		return 0;
	for (const struct hole *h; (h = hole_of(s, file, at)); at++)
		blocks += h->count;
	r = sqfs_inode_make_extended(ino);
	if (r)
		return r;
	ino->data.file_ext.file_size += blocks * SQUASHFS_BLOCK_SIZE;
	ino->data.file_ext.sparse += blocks * SQUASHFS_BLOCK_SIZE;
	return 0;
}

/* `sizes` NULL: of holes. */
static int write_sizes(sqfs_meta_writer_t *to, const uint32_t *sizes, uint64_t n)
{
	uint32_t list[2048] = { 0 };
	int r = 0;

	while (n > 0 && !r) {
		uint64_t m = n < ARRAY_SIZE(list) ? n : ARRAY_SIZE(list);

		for (uint64_t i = 0; sizes && i < m; i++)
			list[i] = htole32(*sizes++);
		r = sqfs_meta_writer_append(to, list, m * sizeof *list);
		n -= m;
	}
	return r;
}

int squashfs_holes_write(struct sink_squashfs *s, uint32_t file, const sqfs_inode_generic_t *ino, sqfs_meta_writer_t *to)
{
	const sqfs_inode_file_ext_t *f = &ino->data.file_ext;
	sqfs_inode_t base = {
		.type = htole16(ino->base.type), .mode = htole16(ino->base.mode & 07777), .uid_idx = htole16(ino->base.uid_idx), .gid_idx = htole16(ino->base.gid_idx),
		.mod_time = htole32(ino->base.mod_time), .inode_number = htole32(ino->base.inode_number),
	};
	sqfs_inode_file_ext_t ext = {
		.blocks_start = htole64(f->blocks_start), .file_size = htole64(f->file_size), .sparse = htole64(f->sparse), .nlink = htole32(f->nlink),
		.fragment_idx = htole32(f->fragment_idx), .fragment_offset = htole32(f->fragment_offset), .xattr_idx = htole32(f->xattr_idx),
	};
	const uint32_t *sizes = ino->extra;
	uint64_t left = ino->payload_bytes_used / sizeof *sizes, block = 0;
	int r = sqfs_meta_writer_append(to, &base, sizeof base);

	if (!r)
		r = sqfs_meta_writer_append(to, &ext, sizeof ext);
	for (uint32_t at = first_hole(s, file); !r; at++) {
		const struct hole *h = hole_of(s, file, at);
		uint64_t n = h ? h->block - block : left;

		r = write_sizes(to, sizes, n);
		sizes += n;
		left -= n;
		if (!h)
			break;
		if (!r)
			r = write_sizes(to, NULL, h->count);
		block = h->block + h->count;
	}
	return r;
}
