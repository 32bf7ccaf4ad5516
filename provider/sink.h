/* SPDX-License-Identifier: Apache-2.0 */
/* Where an image goes: file content first, as it streams by, then the tree that names it. */
#ifndef PROVIDER_SINK_H
#define PROVIDER_SINK_H

#include "tree.h"

struct packer;
struct sink;

struct sink_ops {
	/* Whether the content of this file is wanted at all. NULL: always. */
	bool (*wants)(struct sink *, const struct tree *, const struct entry *);
	/* One file at a time. *ret_data is the number by which the entry remembers its content. */
	int (*begin)(struct sink *, uint64_t size, uint32_t *ret_data, struct edera_error *);
	int (*data)(struct sink *, const void *data, uint64_t n, struct edera_error *); /* data NULL: n zeros */
	int (*end)(struct sink *, struct edera_error *);
	/* The tree is merged and every file that is alive in it has its content. */
	int (*finish)(struct sink *, struct tree *, struct edera_error *);
	void (*free)(struct sink *);
};

struct sink {
	const struct sink_ops *ops;
};

struct sink_options {
	int output_fd;     /* file opened for reading and writing, or a directory */
	int store_fd;      /* tar: file for what must wait, or -1 */
	struct packer *packer; /* what the tar goes to, in place of output_fd; or NULL */
	uint64_t max_size; /* tar: bytes of all files, holes included */
	unsigned level;    /* of zstd */
	unsigned workers;
	uint32_t max_files;
	uint64_t max_file; /* bytes of each file of a kernel image */
};

int sink_squashfs_new(const struct sink_options *, struct sink **ret, struct edera_error *);
int sink_directory_new(const struct sink_options *, struct sink **ret, struct edera_error *);
int sink_tar_new(const struct sink_options *, struct sink **ret, struct edera_error *);

/* Live children of a directory in the order of their names' bytes; the caller frees *ret. */
int sink_children(const struct tree *, uint32_t dir, uint32_t **ret, uint32_t *ret_n, struct edera_error *);

#endif
