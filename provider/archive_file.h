/* SPDX-License-Identifier: Apache-2.0 */
/* The file that an archive's origin names, for reading anywhere in it: one that is compressed as a whole is unpacked first. */
#ifndef PROVIDER_ARCHIVE_FILE_H
#define PROVIDER_ARCHIVE_FILE_H

#include "options.h"
#include "origin.h"

/* What to call it in messages: its path in quotes, or "the archive". */
void archive_file_name(const struct origin *, char dst[4100]);
/* *ret is the caller's. */
int archive_file_open(const struct origin *, const struct options *, int *ret, struct edera_error *);

#endif
