/* SPDX-License-Identifier: Apache-2.0 */
#include "sink_squashfs.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE_COMPARED 4096       /* files of a block and more that are compared with those before, which takes longer with each */
#define WRITE_OUT_SIZE (4u << 20) /* sent to the disk at a time */

static struct output_file *output_of(const void *file) { return (struct output_file *)file; }

static int output_failed(struct output_file *f)
{
	if (!f->error)
		f->error = errno ? errno : EIO;
	return SQFS_ERROR_IO;
}

static int output_read(sqfs_file_t *file, sqfs_u64 offset, void *buffer, size_t size)
{
	struct output_file *f = output_of(file);
	uint8_t *p = buffer;

	while (size > 0) {
		ssize_t n = pread(f->fd, p, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? output_failed(f) : SQFS_ERROR_OUT_OF_BOUNDS;
		p += n;
		size -= (size_t)n;
		offset += (size_t)n;
	}
	return 0;
}

/* Lets the disk begin with what will hardly change any more: whoever keeps the image, and syncs it, has less to wait for. */
static void write_out(struct output_file *f)
{
	if (f->size < f->written_out + 2 * WRITE_OUT_SIZE)
		return;
	sync_file_range(f->fd, (off_t)f->written_out, WRITE_OUT_SIZE, SYNC_FILE_RANGE_WRITE);
	f->written_out += WRITE_OUT_SIZE;
}

static int output_write(sqfs_file_t *file, sqfs_u64 offset, const void *buffer, size_t size)
{
	struct output_file *f = output_of(file);
	const uint8_t *p = buffer;

	while (size > 0) {
		ssize_t n = pwrite(f->fd, p, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return output_failed(f);
		p += n;
		size -= (size_t)n;
		offset += (size_t)n;
	}
	if (offset > f->size)
		f->size = offset;
	write_out(f);
	return 0;
}

static sqfs_u64 output_size(const sqfs_file_t *file) { return output_of(file)->size; }

static int output_truncate(sqfs_file_t *file, sqfs_u64 size)
{
	struct output_file *f = output_of(file);

	if (ftruncate(f->fd, (off_t)size) < 0)
		return output_failed(f);
	f->size = size;
	return 0;
}

int squashfs_error(struct sink_squashfs *s, int code, const char *doing, struct edera_error *err)
{
	if (s->file.error)
		return err_errno(err, -s->file.error, "cannot write the squashfs file while %s", doing);
	switch (code) {
	case SQFS_ERROR_ALLOC:
		return err_errno(err, -ENOMEM, "cannot make the squashfs file while %s", doing);
	case SQFS_ERROR_OVERFLOW:
		return err_set(err, -EOVERFLOW, "the image does not fit squashfs while %s: too many different owners (65536 at most) or too large", doing);
	default:
		return err_set(err, -EIO, "cannot make the squashfs file while %s: error %d of libsquashfs", doing, code);
	}
}

static int squashfs_begin(struct sink *sink, uint64_t size, uint32_t *ret, struct edera_error *err)
{
	struct sink_squashfs *s = (struct sink_squashfs *)sink;
	uint32_t i;
	int r;

	if (size > SQUASHFS_FILE_MAX)
		return err_set(err, -EFBIG, "a file of the image is larger than the %llu TiB that Linux reads from squashfs", SQUASHFS_FILE_MAX >> 40);
	if (table_add(&s->inodes, 1, &i))
		return err_set(err, -E2BIG, "the image has more than the %u files allowed (--max-entries)", s->inodes.max);
	if (table_add(&s->firsts, 1, ret))
		return err_set(err, -E2BIG, "the image has more than the %u files allowed (--max-entries)", s->firsts.max);
	s->small = size > 0 && size < SQUASHFS_BLOCK_SIZE;
	if (s->small) {
		squashfs_same_begin(s->same);
		return 0;
	}
	r = sqfs_block_processor_begin_file(s->blocks, table_at(&s->inodes, i), NULL, SQFS_BLK_DONT_FRAGMENT | (s->large++ < LARGE_COMPARED ? 0 : SQFS_BLK_DONT_DEDUPLICATE));
	if (r)
		return squashfs_error(s, r, "beginning a file", err);
	squashfs_holes_begin(s);
	return 0;
}

static int pack_small(struct sink_squashfs *s, struct edera_error *err)
{
	uint32_t file = s->inodes.count - 1, first;
	size_t n;
	const uint8_t *content = squashfs_same_content(s->same, &n);
	int r = squashfs_same_find(s->same, file, &first, err);

	if (r)
		return r;
	if (first != file) {
		*(uint32_t *)table_at(&s->firsts, file) = first + 1;
		return 0;
	}
	r = sqfs_block_processor_begin_file(s->blocks, table_at(&s->inodes, file), NULL, SQFS_BLK_DONT_DEDUPLICATE);
	if (!r)
		r = sqfs_block_processor_append(s->blocks, content, n);
	if (!r)
		r = sqfs_block_processor_end_file(s->blocks);
	return r ? squashfs_error(s, r, "packing a file", err) : 0;
}

static int squashfs_data(struct sink *sink, const void *data, uint64_t n, struct edera_error *err)
{
	struct sink_squashfs *s = (struct sink_squashfs *)sink;
	int r = 0;

	if (s->small)
		return squashfs_same_data(s->same, data, n, err);
	if (!data) {
		s->zeros += n;
		return 0;
	}
	if (s->zeros && (r = squashfs_holes_settle(s, err)))
		return r;
	s->position += n;
	r = sqfs_block_processor_append(s->blocks, data, n);
	return r ? squashfs_error(s, r, "packing a file", err) : 0;
}

static int squashfs_end(struct sink *sink, struct edera_error *err)
{
	struct sink_squashfs *s = (struct sink_squashfs *)sink;
	int r;

	if (s->small)
		return pack_small(s, err);
	r = s->zeros ? squashfs_holes_settle(s, err) : 0;
	if (r)
		return r;
	r = sqfs_block_processor_end_file(s->blocks);
	return r ? squashfs_error(s, r, "ending a file", err) : 0;
}

static int squashfs_finish(struct sink *sink, struct tree *t, struct edera_error *err)
{
	struct sink_squashfs *s = (struct sink_squashfs *)sink;
	int r = sqfs_block_processor_finish(s->blocks);

	if (r)
		return squashfs_error(s, r, "packing the last files", err);
	return squashfs_metadata(s, t, err);
}

static void squashfs_free(struct sink *sink)
{
	struct sink_squashfs *s = (struct sink_squashfs *)sink;

	sqfs_destroy(s->blocks);
	sqfs_destroy(s->fragments);
	sqfs_destroy(s->writer);
	sqfs_destroy(s->compressor);
	for (uint32_t i = 0; i < s->inodes.count; i++)
		sqfs_free(*(void **)table_at(&s->inodes, i));
	table_free(&s->inodes);
	table_free(&s->holes);
	table_free(&s->firsts);
	squashfs_same_free(s->same);
	free(s);
}

static const struct sink_ops squashfs_ops = {
	.begin = squashfs_begin, .data = squashfs_data, .end = squashfs_end, .finish = squashfs_finish, .free = squashfs_free,
};

static int make_compressor(struct sink_squashfs *s, unsigned level)
{
	sqfs_compressor_config_t c;
	int r = sqfs_compressor_config_init(&c, SQFS_COMP_ZSTD, SQUASHFS_BLOCK_SIZE, 0);

	c.level = level;
	return r ? r : sqfs_compressor_create(&c, &s->compressor);
}

int sink_squashfs_new(const struct sink_options *o, struct sink **ret, struct edera_error *err)
{
	struct sink_squashfs *s = calloc(1, sizeof *s);
	sqfs_block_processor_desc_t d = { .size = sizeof d, .max_block_size = SQUASHFS_BLOCK_SIZE, .num_workers = o->workers, .max_backlog = 24 + 8 * o->workers };
	int r;

	if (!s)
		return err_errno(err, -ENOMEM, "cannot make a squashfs file");
	s->sink.ops = &squashfs_ops;
	s->file = (struct output_file){
		.base = { .read_at = output_read, .write_at = output_write, .get_size = output_size, .truncate = output_truncate }, .fd = o->output_fd,
	};
	r = table_init(&s->inodes, sizeof(sqfs_inode_generic_t *), o->max_files, err);
	if (!r)
		r = table_init(&s->firsts, sizeof(uint32_t), o->max_files, err);
	if (!r)
		r = squashfs_holes_init(s, err);
	if (!r)
		r = squashfs_same_new(&s->same, err);
	if (r)
		goto fail;
	r = make_compressor(s, o->level);
	if (!r)
		r = sqfs_super_init(&s->super, SQUASHFS_BLOCK_SIZE, 0, SQFS_COMP_ZSTD);
	if (!r)
		r = sqfs_super_write(&s->super, &s->file.base);
	if (!r && (r = s->compressor->write_options(s->compressor, &s->file.base)) > 0) {
		s->super.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
		r = 0;
	}
	if (!r) {
		s->writer = sqfs_block_writer_create(&s->file.base, SQFS_DEVBLK_SIZE, 0);
		s->fragments = sqfs_frag_table_create(0);
		r = s->writer && s->fragments ? 0 : SQFS_ERROR_ALLOC;
	}
	d.cmp = s->compressor;
	d.wr = s->writer;
	d.tbl = s->fragments;
	if (!r)
		r = sqfs_block_processor_create_ex(&d, &s->blocks);
	if (!r) {
		*ret = &s->sink;
		return 0;
	}
	r = squashfs_error(s, r, "starting", err);
fail:
	squashfs_free(&s->sink);
	return r;
}
