/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a descriptor to its end, for what was handed over as one. */
#ifndef PROVIDER_IO_H
#define PROVIDER_IO_H

#include "base/buf.h"
#include "base/error.h"

/* At most `max` bytes (-EFBIG). */
int io_read_all(int fd, size_t max, struct buf *ret, const char *what, struct edera_error *);
int io_write_all(int fd, const void *data, size_t n);
/* Where files without a name are made, where nothing else is said. */
const char *io_temporary_directory(void);

#endif
