/* SPDX-License-Identifier: Apache-2.0 */
/* The header side of the tar reader: what describes one entry, gathered from its header and those before it. */
#ifndef PROVIDER_TAR_HEADER_H
#define PROVIDER_TAR_HEADER_H

#include "tar.h"
#include "base/buf.h"

#define TAR_BLOCK_SIZE 512
#define TAR_SPECIAL_MAX (1u << 20)  /* bytes of one record of long names or attributes */
#define TAR_EXTENTS_MAX (1u << 20)  /* pieces of a sparse file */
#define TAR_XATTR_VALUE_MAX 65536u  /* the kernel's own limits */
#define TAR_XATTR_NAMES_MAX 65536u  /* of a file, each with its NUL */

struct tar_extent {
	uint64_t offset, length;
};

/* Where the reading of a map is that stands before the data: "number\nnumber\n..."; the first says how many pairs follow. */
struct tar_map {
	uint64_t want, n, number, offset;
	bool digits;
};

struct tar_meta {
	bool pending; /* headers were read that describe an entry to come */
	struct buf gnu_path, gnu_link, pax_text;
	/* From PAX records; bits in `has`. */
	unsigned has;
	const char *pax_path, *pax_link, *pax_sparse_name;
	uint64_t pax_size, pax_uid, pax_gid, pax_real_size;
	int64_t pax_mtime;
	struct buf xattrs;
	size_t n_xattrs;
	uint32_t xattrs_dropped;
	/* Sparse files. */
	bool sparse, sparse_in_data, old_sparse_more;
	uint64_t real_size;
	struct tar_extent *extents;
	size_t n_extents, cap_extents;
	/* Result. */
	char path[TAR_PATH_MAX + 1], link[TAR_PATH_MAX + 1];
};

static inline uint64_t tar_padding(uint64_t size) { return -size & (TAR_BLOCK_SIZE - 1); }
bool tar_block_is_zero(const uint8_t block[TAR_BLOCK_SIZE]);
void tar_meta_reset(struct tar_meta *);
void tar_meta_free(struct tar_meta *);
/* Verifies the checksum and reads the size field. */
int tar_header_check(const uint8_t block[TAR_BLOCK_SIZE], uint64_t *ret_size, struct edera_error *);
/* Takes in m->pax_text. */
int tar_meta_pax(struct tar_meta *m, struct edera_error *);
/* The header of an entry: 0 and ret, *size (stored bytes that follow); 1 for an unknown type. */
int tar_meta_entry(struct tar_meta *m, const uint8_t block[TAR_BLOCK_SIZE], uint64_t *size, struct tar_entry *ret, struct edera_error *);
int tar_meta_sparse_block(struct tar_meta *m, const uint8_t block[TAR_BLOCK_SIZE], bool *ret_more, struct edera_error *);
int tar_meta_sparse_text(struct tar_meta *m, struct tar_map *map, const char *text, size_t len, bool *ret_complete, struct edera_error *);
int tar_meta_sparse_map(struct tar_meta *m, const char *map, struct edera_error *); /* PAX 0.1 */
int tar_meta_sparse_check(struct tar_meta *m, uint64_t stored, struct edera_error *);
int tar_meta_add_extent(struct tar_meta *m, uint64_t offset, uint64_t length, struct edera_error *);
int tar_meta_xattr(struct tar_meta *m, const char *name, size_t name_len, const void *value, size_t len, struct edera_error *);
/* The entry's fields that are known only once sparse maps were read. */
void tar_meta_fill(struct tar_meta *m, uint64_t stored, struct tar_entry *ret);
/* Octal or base-256 field; -EBADMSG. */
int tar_number(const uint8_t *field, size_t n, int64_t *ret);

#endif
