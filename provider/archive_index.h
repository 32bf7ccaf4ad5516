/* SPDX-License-Identifier: Apache-2.0 */
/* The index of an uncompressed tar file: where each regular file's bytes are. */
#ifndef PROVIDER_ARCHIVE_INDEX_H
#define PROVIDER_ARCHIVE_INDEX_H

#include <stdint.h>
#include "base/error.h"

struct archive_file {
	uint64_t offset, size;
};

struct archive_index;
/* Reads the headers of the whole file; fd stays the caller's and must outlive the index. name: for messages. */
int archive_index_new(int fd, const char *name, struct archive_index **ret, struct edera_error *);
void archive_index_free(struct archive_index *);
/* By name without leading "./"; links within the archive are followed. -ENOENT without a sentence. */
int archive_index_find(const struct archive_index *, const char *name, struct archive_file *ret);

#endif
