/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fdwatch.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

static void on_poll(uv_poll_t *p, int status, int events)
{
	struct fdwatch *w = p->data;
	struct epoll_event e;

	if (epoll_wait(w->epoll, &e, 1, 0) == 1)
		w->ready(w, e.events);
}

static void on_idle(uv_idle_t *i)
{
	struct fdwatch *w = i->data;

	w->ready(w, w->events);
}

int fdwatch_open(struct fdwatch *w, uv_loop_t *loop, int fd, void (*ready)(struct fdwatch *, uint32_t), void *user)
{
	struct epoll_event e = { 0 };
	int r;

	*w = (struct fdwatch){ .fd = fd, .epoll = epoll_create1(EPOLL_CLOEXEC), .ready = ready, .user = user };
	if (w->epoll < 0)
		return -errno;
	if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
		if (errno != EPERM) {
			r = -errno;
			close(w->epoll);
			return r;
		}
		w->always = true;
	}
	uv_idle_init(loop, &w->idle);
	r = uv_poll_init(loop, &w->poll, w->epoll);
	w->idle.data = w->poll.data = w;
	w->open = 2;
	return r;
}

void fdwatch_want(struct fdwatch *w, uint32_t events)
{
	struct epoll_event e = { .events = events };

	w->events = events;
	if (w->always) {
		if (events)
			uv_idle_start(&w->idle, on_idle);
		else
			uv_idle_stop(&w->idle);
		return;
	}
	epoll_ctl(w->epoll, EPOLL_CTL_MOD, w->fd, &e);
	uv_poll_start(&w->poll, UV_READABLE, on_poll);
}

void fdwatch_pause(struct fdwatch *w)
{
	uv_idle_stop(&w->idle);
	uv_poll_stop(&w->poll);
}

static void on_closed(uv_handle_t *h)
{
	struct fdwatch *w = h->data;

	if (--w->open == 0)
		close(w->epoll);
}

void fdwatch_close(struct fdwatch *w)
{
	if (!w->open || uv_is_closing((uv_handle_t *)&w->poll))
		return;
	uv_close((uv_handle_t *)&w->poll, on_closed);
	uv_close((uv_handle_t *)&w->idle, on_closed);
}
