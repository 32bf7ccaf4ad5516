/* SPDX-License-Identifier: Apache-2.0 */
/* Output of a console or a workload: one record, any number of viewers that pull from it. Loop thread only. */
#ifndef CORE_OUTPUT_H
#define CORE_OUTPUT_H

#include <stdbool.h>
#include "record.h"

#define OUTPUT_LAG_MAX (256u << 10) /* a holding viewer further behind than this stops the source */

struct output;

struct output_viewer_ops {
	bool (*writable)(void *user);
	void (*chunk)(void *user, int stream, const void *data, size_t len);
	/* No more will come: the source has ended, or (without follow) the end of the record is reached. Last callback. */
	void (*ended)(void *user);
};

struct output_viewer;

struct output *output_new(const char *path, struct edera_error *);
/* Viewers get `ended` first. */
void output_free(struct output *);
struct record *output_record(struct output *);

/* Bytes from the source, at `offset` of `stream`. */
int output_append(struct output *, int stream, uint64_t offset, const void *data, size_t len, struct edera_error *);
void output_end(struct output *); /* the source has ended */
/* Called when holding viewers fell too far behind (true) and when they have caught up (false). */
void output_on_lag(struct output *, void (*lag)(void *user, bool behind), void *user);

/* history: from the oldest byte kept, else from now. follow: until the source ends. hold: the source waits for this viewer.
 * Nothing is delivered before the first output_viewer_pump. */
struct output_viewer *output_view(struct output *, bool history, bool follow, bool hold, const struct output_viewer_ops *, void *user);
void output_viewer_pump(struct output_viewer *); /* deliver what may be; may end (and free) the viewer. NULL is accepted */
void output_viewer_unfollow(struct output_viewer *); /* end at what is there now */
void output_viewer_free(struct output_viewer *); /* without `ended`; NULL is accepted */

#endif
