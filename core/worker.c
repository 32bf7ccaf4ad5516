/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"
#include "base/error.h"
#include "base/cleanup.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STACK_BYTES (512u << 10)
#define ABANDON_GRACE_MS 5000
#define IDLE_SECONDS 20

struct worker_job {
	struct worker_job *next, *prev_live, *next_live;
	struct worker_pool *pool;
	struct worker_queue *queue;
	const struct worker_ops *ops;
	void *user;
	struct edera_call call;
	uint64_t timeout_ms;
	bool begun, returned, told; /* told: done was called */
};

struct worker_queue {
	struct worker_job *head, *tail; /* waiting, in order */
	struct worker_job *busy;
	bool freed;
};

struct post {
	struct post *next;
	void (*fn)(void *);
	void *user;
};

struct worker_pool {
	uv_loop_t *loop;
	uv_async_t async;
	uv_timer_t watchdog;
	unsigned max_threads, closing_handles;

	pthread_mutex_t lock;
	pthread_cond_t more, gone;
	struct worker_job *ready, *ready_tail; /* may start now */
	struct post *posts, *posts_tail;
	unsigned n_ready, threads, idle, stuck; /* stuck: threads inside an abandoned job */
	bool stop;

	struct worker_job *live; /* submitted, not yet released; loop thread only */
};

static uint64_t now_ms(void) { return uv_hrtime() / 1000000; }

static void push_ready(struct worker_pool *p, struct worker_job *j)
{
	j->next = NULL;
	if (p->ready)
		p->ready_tail->next = j;
	else
		p->ready = j;
	p->ready_tail = j;
	p->n_ready++;
}

static void post_locked(struct worker_pool *p, void (*fn)(void *), void *user)
{
	struct post *post = malloc(sizeof *post);

	if (!post)
		abort(); /* a result that cannot be delivered would leave its request hanging for ever */
	*post = (struct post){ .fn = fn, .user = user };
	if (p->posts)
		p->posts_tail->next = post;
	else
		p->posts = post;
	p->posts_tail = post;
	uv_async_send(&p->async);
}

static void *thread_main(void *arg);

/* Called with the lock held. */
static void ensure_thread(struct worker_pool *p)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t t;

	if (p->idle >= p->n_ready || p->threads - p->stuck >= p->max_threads)
		return;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
#ifndef PROTECT_SANITIZED
	pthread_attr_setstacksize(&attr, STACK_BYTES);
#endif
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	if (pthread_create(&t, &attr, thread_main, p) == 0)
		p->threads++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
}

static void unlink_live(struct worker_job *j)
{
	struct worker_pool *p = j->pool;

	if (j->prev_live)
		j->prev_live->next_live = j->next_live;
	else
		p->live = j->next_live;
	if (j->next_live)
		j->next_live->prev_live = j->prev_live;
}

static void start_next(struct worker_pool *p, struct worker_queue *q)
{
	struct worker_job *j = q->head;

	q->busy = NULL;
	if (!j) {
		if (q->freed)
			free(q);
		return;
	}
	q->head = j->next;
	q->busy = j;
	pthread_mutex_lock(&p->lock);
	push_ready(p, j);
	ensure_thread(p);
	pthread_cond_signal(&p->more);
	pthread_mutex_unlock(&p->lock);
}

static void tell(struct worker_job *j, bool abandoned)
{
	struct worker_queue *q = j->queue;

	j->told = true;
	j->queue = NULL;
	j->ops->done(j->user, abandoned);
	if (q)
		start_next(j->pool, q);
}

static void job_returned(void *user)
{
	struct worker_job *j = user;

	unlink_live(j);
	if (!j->told)
		tell(j, false);
	if (j->ops->release)
		j->ops->release(j->user);
	close(j->call.cancel_fd);
	free(j);
}

static void *thread_main(void *arg)
{
	struct worker_pool *p = arg;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		struct worker_job *j;

		while (!p->ready && !p->stop) {
			struct timespec until;
			int r;

			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_sec += IDLE_SECONDS;
			p->idle++;
			r = pthread_cond_timedwait(&p->more, &p->lock, &until);
			p->idle--;
			if (r == ETIMEDOUT && !p->ready)
				goto out;
		}
		if (p->stop)
			break;
		j = p->ready;
		p->ready = j->next;
		p->n_ready--;
		if (j->timeout_ms)
			j->call.deadline_ns = (int64_t)(uv_hrtime() + j->timeout_ms * 1000000);
		j->begun = true;
		pthread_mutex_unlock(&p->lock);
		j->ops->work(j->user, &j->call);
		pthread_mutex_lock(&p->lock);
		if (j->told)
			p->stuck--;
		j->returned = true;
		post_locked(p, job_returned, j);
	}
out:
	p->threads--;
	pthread_cond_broadcast(&p->gone);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void run_posts(struct worker_pool *p)
{
	struct post *list;

	pthread_mutex_lock(&p->lock);
	list = p->posts;
	p->posts = NULL;
	pthread_mutex_unlock(&p->lock);
	while (list) {
		struct post *next = list->next;

		list->fn(list->user);
		free(list);
		list = next;
	}
}

static void on_async(uv_async_t *a) { run_posts(a->data); }

static void on_watchdog(uv_timer_t *t)
{
	struct worker_pool *p = t->data;
	int64_t now = (int64_t)uv_hrtime();

	for (struct worker_job *j = p->live, *next; j; j = next) {
		bool overdue;

		next = j->next_live;
		pthread_mutex_lock(&p->lock);
		overdue = j->begun && !j->returned && !j->told && j->call.deadline_ns && now > j->call.deadline_ns + ABANDON_GRACE_MS * 1000000ll;
		if (overdue) {
			j->told = true;
			p->stuck++;
		}
		pthread_mutex_unlock(&p->lock);
		if (overdue)
			tell(j, true);
	}
}

struct worker_pool *worker_pool_new(uv_loop_t *loop, unsigned max_threads, struct edera_error *err)
{
	struct worker_pool *p = calloc(1, sizeof *p);

	if (!p) {
		err_errno(err, -ENOMEM, "cannot make the worker pool");
		return NULL;
	}
	p->loop = loop;
	p->max_threads = max_threads;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	pthread_cond_init(&p->gone, NULL);
	uv_async_init(loop, &p->async, on_async);
	uv_timer_init(loop, &p->watchdog);
	p->async.data = p->watchdog.data = p;
	uv_timer_start(&p->watchdog, on_watchdog, 1000, 1000);
	uv_unref((uv_handle_t *)&p->watchdog);
	return p;
}

static void on_pool_closed(uv_handle_t *h)
{
	struct worker_pool *p = h->data;

	/* A thread still inside a hung plugin call keeps using the pool's lock: it is left to the process's end. */
	if (--p->closing_handles == 0 && p->threads == 0) {
		pthread_mutex_destroy(&p->lock);
		free(p);
	}
}

void worker_pool_free(struct worker_pool *p, unsigned grace_ms)
{
	uint64_t until = now_ms() + grace_ms;

	if (!p)
		return;
	for (struct worker_job *j = p->live; j; j = j->next_live)
		worker_cancel(j);
	while (p->live && now_ms() < until) {
		run_posts(p);
		usleep(2000);
	}
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	p->ready = NULL;
	p->n_ready = 0;
	pthread_cond_broadcast(&p->more);
	while (p->threads > 0 && now_ms() < until) {
		struct timespec ts;

		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_sec += 1;
		pthread_cond_timedwait(&p->gone, &p->lock, &ts);
	}
	pthread_mutex_unlock(&p->lock);
	run_posts(p);
	p->closing_handles = 2;
	uv_close((uv_handle_t *)&p->async, on_pool_closed);
	uv_close((uv_handle_t *)&p->watchdog, on_pool_closed);
}

struct worker_queue *worker_queue_new(struct worker_pool *p)
{
	(void)p;
	return calloc(1, sizeof(struct worker_queue));
}

void worker_queue_free(struct worker_queue *q)
{
	if (!q)
		return;
	if (q->busy || q->head)
		q->freed = true;
	else
		free(q);
}

struct worker_job *worker_submit(struct worker_pool *p, struct worker_queue *q, uint64_t timeout_ms, const struct worker_ops *ops, void *user)
{
	struct worker_job *j = calloc(1, sizeof *j);

	if (!j)
		abort(); /* as for posts: no request may be lost silently */
	j->pool = p;
	j->queue = q;
	j->ops = ops;
	j->user = user;
	j->timeout_ms = timeout_ms;
	j->call = (struct edera_call){ .size = sizeof j->call, .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	j->next_live = p->live;
	if (p->live)
		p->live->prev_live = j;
	p->live = j;
	if (q && q->busy) {
		if (q->head)
			q->tail->next = j;
		else
			q->head = j;
		q->tail = j;
		return j;
	}
	if (q)
		q->busy = j;
	pthread_mutex_lock(&p->lock);
	push_ready(p, j);
	ensure_thread(p);
	pthread_cond_signal(&p->more);
	pthread_mutex_unlock(&p->lock);
	return j;
}

void worker_cancel(struct worker_job *j)
{
	uint64_t one = 1;
	ssize_t n;

	if (!j)
		return;
	n = write(j->call.cancel_fd, &one, sizeof one);
	(void)n; /* full means already cancelled */
}

void worker_post(struct worker_pool *p, void (*fn)(void *), void *user)
{
	pthread_mutex_lock(&p->lock);
	post_locked(p, fn, user);
	pthread_mutex_unlock(&p->lock);
}
