/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor watches, timers and posted calls on the loop, from any thread. On the loop's own thread they take effect at once,
 * elsewhere they are handed to the loop. */
#ifndef PLUGIN_WATCH_H
#define PLUGIN_WATCH_H

#include <uv.h>
#include <stdint.h>
#include "base/error.h"

struct watches;

int watches_new(uv_loop_t *, struct watches **ret, struct edera_error *);
/* Loop thread. Stops everything, and refuses what comes later with -ESHUTDOWN. */
void watches_close(struct watches *);
/* After watches_close; the memory goes when the loop has closed the handles too. */
void watches_free(struct watches *);

int watch_fd(struct watches *, const void *owner, int fd, uint32_t events, void (*cb)(void *, uint32_t), void *user, uint64_t *ret_id);
int watch_timer(struct watches *, const void *owner, uint64_t after_ms, uint64_t repeat_ms, void (*cb)(void *, uint32_t), void *user, uint64_t *ret_id);
int watch_remove(struct watches *, const void *owner, uint64_t id); /* -ENOENT */
void watch_remove_all(struct watches *, const void *owner);         /* loop thread */
/* Calls cb on the loop thread, later. `data` is malloc'd and freed after it; after watches_close it is only freed. */
void watch_post(struct watches *, void (*cb)(void *user, void *data), void *user, void *data);

#endif
