/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two halves of the squashfs sink: content (blocks) and metadata (inodes, directories, tables). */
#ifndef PROVIDER_SINK_SQUASHFS_H
#define PROVIDER_SINK_SQUASHFS_H

#include "sink.h"

#include <sqfs/block_processor.h>
#include <sqfs/block_writer.h>
#include <sqfs/compressor.h>
#include <sqfs/error.h>
#include <sqfs/frag_table.h>
#include <sqfs/inode.h>
#include <sqfs/io.h>
#include <sqfs/super.h>

#define SQUASHFS_BLOCK_SIZE 131072

/* libsquashfs writes through this. */
struct output_file {
	sqfs_file_t base;
	int fd;
	int error;      /* errno of the first failure, for the message */
	uint64_t size;
	uint64_t written_out; /* the disk was told to write so much */
};

struct sink_squashfs {
	struct sink sink;
	struct output_file file;
	sqfs_super_t super;
	sqfs_compressor_t *compressor, *decompressor;
	sqfs_block_writer_t *writer;
	sqfs_frag_table_t *fragments;
	sqfs_block_processor_t *blocks;
	struct table inodes; /* sqfs_inode_generic_t *: libsquashfs keeps the addresses of its elements */
};

int squashfs_error(struct sink_squashfs *, int code, const char *doing, struct edera_error *);
/* Inodes, directories and tables, then the super block. */
int squashfs_metadata(struct sink_squashfs *, struct tree *, struct edera_error *);

#endif
