/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include <stdlib.h>
#include <unistd.h>

struct watch {
	uv_poll_t poll;
	int fd, events;
	watch_fn fn;
	void *user;
	bool gone;
};

static void on_poll(uv_poll_t *p, int status, int events)
{
	struct watch *w = p->data;

	/* An error shows itself at the next read or write. */
	if (!w->gone)
		w->fn(w->user, status < 0 ? w->events : events);
}

struct watch *watch_new(struct agent *a, int fd, watch_fn fn, void *user)
{
	struct watch *w = calloc(1, sizeof *w);

	if (!w || uv_poll_init(a->loop, &w->poll, fd) < 0) {
		free(w);
		close(fd);
		return NULL;
	}
	w->poll.data = w;
	w->fd = fd;
	w->fn = fn;
	w->user = user;
	return w;
}

void watch_events(struct watch *w, int events)
{
	if (w->events == events)
		return;
	w->events = events;
	if (events)
		uv_poll_start(&w->poll, events, on_poll);
	else
		uv_poll_stop(&w->poll);
}

int watch_fd(const struct watch *w)
{
	return w->fd;
}

static void on_closed(uv_handle_t *h)
{
	struct watch *w = h->data;

	close(w->fd);
	free(w);
}

void watch_free(struct watch *w)
{
	if (!w)
		return;
	w->gone = true;
	uv_poll_stop(&w->poll);
	uv_close((uv_handle_t *)&w->poll, on_closed);
}
