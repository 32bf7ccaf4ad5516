/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/watch.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>

/* NEW: the loop has not seen it. ACTIVE: its handle is open. GONE: open, and to be closed by the loop. DEAD: libuv refused it. */
enum watch_state { NEW, ACTIVE, GONE, DEAD };

/* A descriptor is duplicated: libuv wants each one once, and a plugin may close its own too early. */
struct watch {
	struct watch *next;
	struct watches *set;
	const void *owner;
	uint64_t id;
	enum watch_state state; /* under the set's lock */
	int fd;                 /* -1: a timer */
	uint32_t events;
	uint64_t after_ms, repeat_ms;
	void (*cb)(void *, uint32_t);
	void *user;
	union {
		uv_handle_t handle;
		uv_poll_t poll;
		uv_timer_t timer;
	};
};

struct post {
	struct post *next;
	void (*cb)(void *, void *);
	void *user, *data;
};

struct watches {
	uv_loop_t *loop;
	uv_thread_t thread;
	uv_async_t async;
	uv_mutex_t lock;
	bool closed;
	size_t refs; /* of the owner, and one for each handle the loop still knows; loop thread only */
	uint64_t last_id;
	struct watch *list;
	struct post *posts, **posts_end;
};

static void set_unref(struct watches *s)
{
	if (--s->refs)
		return;
	uv_mutex_destroy(&s->lock);
	free(s);
}

static bool on_loop(const struct watches *s)
{
	uv_thread_t self = uv_thread_self();

	return uv_thread_equal(&self, &s->thread);
}

static void watch_closed(uv_handle_t *h)
{
	struct watch *w = h->data;

	close_fd(&w->fd);
	set_unref(w->set);
	free(w);
}

/* Loop thread, unlocked; w is off the list. */
static void stop_watch(struct watch *w, enum watch_state was)
{
	if (was == ACTIVE || was == GONE) {
		uv_close(&w->handle, watch_closed);
		return;
	}
	close_fd(&w->fd);
	free(w);
}

static bool is_gone(struct watch *w)
{
	bool gone;

	uv_mutex_lock(&w->set->lock);
	gone = w->state == GONE;
	uv_mutex_unlock(&w->set->lock);
	return gone;
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct watch *w = h->data;
	uint32_t out = (events & UV_READABLE ? POLLIN : 0) | (events & UV_WRITABLE ? POLLOUT : 0) | (status < 0 ? POLLERR : 0);

	if (!is_gone(w))
		w->cb(w->user, out);
}

static void on_timer(uv_timer_t *h)
{
	struct watch *w = h->data;
	struct watches *s = w->set;
	void (*cb)(void *, uint32_t) = w->cb;
	void *user = w->user;

	if (is_gone(w))
		return;
	if (!w->repeat_ms)
		watch_remove(s, w->owner, w->id);
	cb(user, 0);
}

/* Loop thread, unlocked. */
static int start_watch(struct watch *w)
{
	int r;

	if (w->fd < 0) {
		uv_update_time(w->set->loop);
		r = uv_timer_init(w->set->loop, &w->timer);
	} else {
		r = uv_poll_init(w->set->loop, &w->poll, w->fd);
	}
	w->state = r ? DEAD : ACTIVE;
	if (r)
		return r;
	w->handle.data = w;
	w->set->refs++;
	if (w->fd < 0)
		return uv_timer_start(&w->timer, on_timer, w->after_ms, w->repeat_ms);
	return uv_poll_start(&w->poll, (w->events & POLLIN ? UV_READABLE : 0) | (w->events & POLLOUT ? UV_WRITABLE : 0), on_poll);
}

static struct watch *take(struct watch **list, const void *owner, uint64_t id)
{
	for (struct watch **p = list; *p; p = &(*p)->next)
		if ((!id || (*p)->id == id) && (*p)->owner == owner) {
			struct watch *w = *p;

			*p = w->next;
			return w;
		}
	return NULL;
}

static struct watch *next_in_state(struct watches *s, enum watch_state state)
{
	for (struct watch *w = s->list; w; w = w->next)
		if (w->state == state)
			return w;
	return NULL;
}

/* What other threads asked for. */
static void on_async(uv_async_t *a)
{
	struct watches *s = a->data;
	struct watch *w;
	struct post *p;

	uv_mutex_lock(&s->lock);
	while ((w = next_in_state(s, GONE))) {
		struct watch **at = &s->list;

		while (*at != w)
			at = &(*at)->next;
		*at = w->next;
		uv_mutex_unlock(&s->lock);
		stop_watch(w, GONE);
		uv_mutex_lock(&s->lock);
	}
	while ((w = next_in_state(s, NEW)))
		start_watch(w); /* one that libuv refuses stays, dead, until its owner's unwatch */
	p = s->posts;
	s->posts = NULL;
	s->posts_end = &s->posts;
	uv_mutex_unlock(&s->lock);
	while (p) {
		struct post *next = p->next;

		p->cb(p->user, p->data);
		free(p->data);
		free(p);
		p = next;
	}
}

int watches_new(uv_loop_t *loop, struct watches **ret, struct edera_error *err)
{
	struct watches *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return err_errno(err, -ENOMEM, "cannot start the plugin host");
	r = uv_async_init(loop, &s->async, on_async);
	if (r) {
		free(s);
		return err_errno(err, r, "cannot start the plugin host");
	}
	if (uv_mutex_init(&s->lock))
		abort(); /* fails only for want of memory for a few words */
	s->loop = loop;
	s->thread = uv_thread_self();
	s->posts_end = &s->posts;
	s->refs = 2; /* the owner and the async handle */
	s->async.data = s;
	*ret = s;
	return 0;
}

static void async_closed(uv_handle_t *h) { set_unref(h->data); }

void watches_close(struct watches *s)
{
	struct watch *w;
	struct post *p;

	uv_mutex_lock(&s->lock);
	s->closed = true;
	w = s->list;
	p = s->posts;
	s->list = NULL;
	s->posts = NULL;
	uv_mutex_unlock(&s->lock);
	while (w) {
		struct watch *next = w->next;

		stop_watch(w, w->state);
		w = next;
	}
	while (p) {
		struct post *next = p->next;

		free(p->data);
		free(p);
		p = next;
	}
	uv_close((uv_handle_t *)&s->async, async_closed);
}

void watches_free(struct watches *s)
{
	if (s)
		set_unref(s);
}

static int add(struct watches *s, struct watch *w, uint64_t *ret_id)
{
	uint64_t id;
	int r = 0;

	uv_mutex_lock(&s->lock);
	if (s->closed) {
		uv_mutex_unlock(&s->lock);
		close_fd(&w->fd);
		free(w);
		return -ESHUTDOWN;
	}
	id = w->id = ++s->last_id;
	w->set = s;
	w->next = s->list;
	s->list = w;
	if (on_loop(s))
		r = start_watch(w);
	else
		uv_async_send(&s->async);
	uv_mutex_unlock(&s->lock);
	if (r)
		watch_remove(s, w->owner, id);
	else if (ret_id)
		*ret_id = id;
	return r;
}

int watch_fd(struct watches *s, const void *owner, int fd, uint32_t events, void (*cb)(void *, uint32_t), void *user, uint64_t *ret_id)
{
	struct watch *w;

	if (!cb || !(events & (POLLIN | POLLOUT)) || (events & ~(uint32_t)(POLLIN | POLLOUT)))
		return -EINVAL;
	w = malloc(sizeof *w);
	if (!w)
		return -ENOMEM;
	*w = (struct watch){ .owner = owner, .events = events, .cb = cb, .user = user };
	w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (w->fd < 0) {
		free(w);
		return -errno;
	}
	return add(s, w, ret_id);
}

int watch_timer(struct watches *s, const void *owner, uint64_t after_ms, uint64_t repeat_ms, void (*cb)(void *, uint32_t), void *user, uint64_t *ret_id)
{
	struct watch *w = cb ? malloc(sizeof *w) : NULL;

	if (!w)
		return cb ? -ENOMEM : -EINVAL;
	*w = (struct watch){ .owner = owner, .fd = -1, .after_ms = after_ms, .repeat_ms = repeat_ms, .cb = cb, .user = user };
	return add(s, w, ret_id);
}

int watch_remove(struct watches *s, const void *owner, uint64_t id)
{
	enum watch_state was = NEW;
	struct watch *w;

	uv_mutex_lock(&s->lock);
	w = id ? take(&s->list, owner, id) : NULL;
	if (w) {
		was = w->state;
		if (was == GONE || (was == ACTIVE && !on_loop(s))) {
			/* Only the loop may close it. */
			w->state = GONE;
			w->next = s->list;
			s->list = w;
			uv_async_send(&s->async);
			uv_mutex_unlock(&s->lock);
			return was == GONE ? -ENOENT : 0;
		}
	}
	uv_mutex_unlock(&s->lock);
	if (!w)
		return -ENOENT;
	stop_watch(w, was);
	return 0;
}

void watch_remove_all(struct watches *s, const void *owner)
{
	struct watch *w;

	for (;;) {
		uv_mutex_lock(&s->lock);
		w = take(&s->list, owner, 0);
		uv_mutex_unlock(&s->lock);
		if (!w)
			return;
		stop_watch(w, w->state);
	}
}

void watch_post(struct watches *s, void (*cb)(void *user, void *data), void *user, void *data)
{
	struct post *p = malloc(sizeof *p);

	if (!p) {
		free(data);
		return;
	}
	*p = (struct post){ NULL, cb, user, data };
	uv_mutex_lock(&s->lock);
	if (s->closed) {
		free(data);
		free(p);
	} else {
		*s->posts_end = p;
		s->posts_end = &p->next;
		uv_async_send(&s->async);
	}
	uv_mutex_unlock(&s->lock);
}
