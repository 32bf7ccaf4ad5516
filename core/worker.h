/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugin operations run: threads of our own, made on demand, because an operation may hang and libuv's pool has four.
 *
 * A job has three callbacks: `work` on a worker thread; `done` on the loop thread, exactly once; `release` on the loop thread, last,
 * when no thread touches `user` any more. A job whose work is still running a grace after its deadline is abandoned: done is called with
 * abandoned = true, and release follows when (if ever) the work returns. Everything but worker_post is for the loop thread. */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include <stdbool.h>
#include <uv.h>
#include <edera/plugin.h>

struct worker_pool;
struct worker_queue; /* jobs of one queue run one at a time, in order */
struct worker_job;

struct worker_ops {
	void (*work)(void *user, const struct edera_call *);
	void (*done)(void *user, bool abandoned);
	void (*release)(void *user);
};

struct worker_pool *worker_pool_new(uv_loop_t *, unsigned max_threads, struct edera_error *);
/* Cancels what runs, waits at most grace_ms for it, and frees. Jobs not begun are dropped: done(abandoned), release. */
void worker_pool_free(struct worker_pool *, unsigned grace_ms);

struct worker_queue *worker_queue_new(struct worker_pool *);
void worker_queue_free(struct worker_queue *); /* its jobs still run; NULL is accepted */

/* timeout_ms 0 = no deadline. queue NULL = no order. The job is valid until its `done`. */
struct worker_job *worker_submit(struct worker_pool *, struct worker_queue *, uint64_t timeout_ms, const struct worker_ops *, void *user);
void worker_cancel(struct worker_job *); /* the call's cancel_fd becomes readable; NULL is accepted */

/* Any thread: fn(user) soon on the loop thread, in order of posting. */
void worker_post(struct worker_pool *, void (*fn)(void *user), void *user);

#endif
