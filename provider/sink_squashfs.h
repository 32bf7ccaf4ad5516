/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two halves of the squashfs sink: content (blocks) and metadata (inodes, directories, tables). */
#ifndef PROVIDER_SINK_SQUASHFS_H
#define PROVIDER_SINK_SQUASHFS_H

#include "sink.h"

#include <sqfs/block.h>
#include <sqfs/block_processor.h>
#include <sqfs/block_writer.h>
#include <sqfs/compressor.h>
#include <sqfs/error.h>
#include <sqfs/frag_table.h>
#include <sqfs/inode.h>
#include <sqfs/io.h>
#include <sqfs/meta_writer.h>
#include <sqfs/super.h>

#define SQUASHFS_BLOCK_SIZE 131072
#define SQUASHFS_FILE_MAX (8ull << 40) /* Linux hangs when it reads a file of squashfs beyond that */

/* libsquashfs writes through this. */
struct output_file {
	sqfs_file_t base;
	int fd;
	int error;      /* errno of the first failure, for the message */
	uint64_t size;
	uint64_t written_out; /* the disk was told to write so much */
};

struct squashfs_same;

struct sink_squashfs {
	struct sink sink;
	struct output_file file;
	sqfs_super_t super;
	sqfs_compressor_t *compressor;
	sqfs_block_writer_t *writer;
	sqfs_frag_table_t *fragments;
	sqfs_block_processor_t *blocks;
	struct table inodes; /* sqfs_inode_generic_t *: libsquashfs keeps the addresses of its elements */
	struct table firsts; /* uint32_t: of a file with the content of an earlier one, that one's number plus one */
	struct squashfs_same *same;
	bool small;          /* the file being packed is gathered there */
	uint32_t large;      /* files that were compared with those before */
	/* Sparse files. */
	struct table holes;
	uint64_t holes_size;
	uint64_t position, zeros; /* of the file being packed: how far it is, and zeros that follow */
};

int squashfs_error(struct sink_squashfs *, int code, const char *doing, struct edera_error *);
/* Small files, one at a time: gathered, then looked up; *ret_first is the number itself if there was none like it. */
int squashfs_same_new(struct squashfs_same **ret, struct edera_error *);
void squashfs_same_free(struct squashfs_same *);
void squashfs_same_begin(struct squashfs_same *);
int squashfs_same_data(struct squashfs_same *, const void *data, uint64_t n, struct edera_error *);
int squashfs_same_find(struct squashfs_same *, uint32_t file, uint32_t *ret_first, struct edera_error *);
const uint8_t *squashfs_same_content(const struct squashfs_same *, size_t *ret_size);
/* Holes: of a file that begins; what came of zeros before data and at the end; of the inode, once all is packed. */
int squashfs_holes_init(struct sink_squashfs *, struct edera_error *);
void squashfs_holes_begin(struct sink_squashfs *);
int squashfs_holes_settle(struct sink_squashfs *, struct edera_error *);
int squashfs_holes_inode(struct sink_squashfs *, uint32_t file, sqfs_inode_generic_t *, bool *ret_any);
int squashfs_holes_write(struct sink_squashfs *, uint32_t file, const sqfs_inode_generic_t *, sqfs_meta_writer_t *);
/* Inodes, directories and tables, then the super block. */
int squashfs_metadata(struct sink_squashfs *, struct tree *, struct edera_error *);

#endif
