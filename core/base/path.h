/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories. ret_ arguments are untouched on failure. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdint.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/error.h"

#define PATH_CAP 4096 /* bytes of every path buffer, NUL included */

/* printf into dst; -ENAMETOOLONG if it does not fit. */
int path_format(char dst[PATH_CAP], struct edera_error *, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* mkdir -p; the last component gets `mode` exactly if it is made. */
int path_mkdirs(const char *path, mode_t mode, struct edera_error *);
/* Removes a file or a whole tree without following links; what is not there is success. */
int path_remove_tree(const char *path, struct edera_error *);
/* Whole file, at most `max` bytes (-EFBIG). */
int path_read_file(const char *path, size_t max, struct buf *ret, struct edera_error *);
/* Temporary name in the same directory, fsync, rename. */
int path_write_file(const char *path, const void *data, size_t len, mode_t mode, struct edera_error *);
/* The file (a regular one, or a directory) and every parent are owned by root and writable by nobody else. */
int path_check_trusted(const char *path, struct edera_error *);

#endif
