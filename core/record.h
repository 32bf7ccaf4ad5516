/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded record of output on disk: what a zone's console or a workload printed. It is a sequence of chunks addressed by an absolute
 * position that only grows; of the newest RECORD_KEEP to 2 * RECORD_KEEP bytes are kept (two files that take turns). Readers hold a position
 * and pull, so a slow one costs nothing. A kill of the daemon in mid-append loses at most the chunk being written.
 *
 * Chunk on disk: u32 length, u64 offset in its stream, u8 stream; then the bytes (little endian). */
#ifndef CORE_RECORD_H
#define CORE_RECORD_H

#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"

#define RECORD_KEEP (4u << 20)
#define RECORD_STREAMS 3 /* 0: console, 1: stdout, 2: stderr */
#define RECORD_CHUNK (64u << 10)

struct record;

/* Opens or continues PATH (and PATH.old). A torn last chunk is cut off. */
struct record *record_open(const char *path, struct edera_error *);
void record_close(struct record *);
void record_remove(const char *path); /* both files */

/* offset: position in that stream of the first byte. 0 or -errno (a full disk: nothing of this chunk is kept). */
int record_append(struct record *, int stream, uint64_t offset, const void *data, size_t len, struct edera_error *);
uint64_t record_end(const struct record *);
/* One past the last byte of a stream that the record holds or held: where an interrupted pump goes on. */
uint64_t record_stream_end(const struct record *, int stream);
/* The chunk at *pos (moved up to what is still kept) into `out` (appended); advances *pos. 1: got one, 0: at the end, -errno. */
int record_read(const struct record *, uint64_t *pos, int *ret_stream, struct buf *out, struct edera_error *);

#endif
