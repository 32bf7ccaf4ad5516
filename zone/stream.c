/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include "base/cleanup.h"
#include <fcntl.h>
#include <unistd.h>

#define READ_AT_ONCE (64u << 10)

static struct watch *watch_nonblocking(struct agent *a, int fd, watch_fn fn, void *user)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	return watch_new(a, fd, fn, user);
}

/* ---- output ---- */

/* Reads what is there, as far as the ring has room. Returns whether there is news. */
static bool drain(struct output *o)
{
	bool news = false;

	while (o->watch && o->started) {
		uint8_t *at = NULL;
		size_t room = ring_room(&o->ring, READ_AT_ONCE, &at);
		ssize_t n;

		if (!room) { /* the writer waits until the host has taken some */
			watch_events(o->watch, 0);
			break;
		}
		n = read(watch_fd(o->watch), at, room);
		if (n > 0) {
			ring_commit(&o->ring, (size_t)n);
			news = true;
		} else if (n < 0 && errno == EINTR) {
			continue;
		} else if (n < 0 && errno == EAGAIN && !o->last) {
			watch_events(o->watch, UV_READABLE);
			break;
		} else { /* the end; EIO is that of a terminal nobody has open any more */
			output_close(o);
			news = true;
		}
	}
	return news;
}

static void on_output(void *user, int events)
{
	struct output *o = user;

	if (drain(o))
		o->changed(o->user);
}

int output_open(struct output *o, struct agent *a, int fd)
{
	o->watch = watch_nonblocking(a, fd, on_output, o);
	return o->watch ? 0 : -ENOMEM;
}

void output_start(struct output *o)
{
	o->started = true;
	if (o->watch)
		watch_events(o->watch, UV_READABLE);
}

void output_release(struct output *o, uint64_t offset)
{
	ring_release(&o->ring, offset);
	if (o->last)
		drain(o); /* nothing will wake us for the end */
	else if (o->watch && o->started)
		watch_events(o->watch, UV_READABLE);
}

void output_finish(struct output *o)
{
	o->last = true;
	drain(o);
}

void output_close(struct output *o)
{
	watch_free(steal_ptr(o->watch));
}

/* ---- input ---- */

static void flush(struct input *in)
{
	while (in->watch && in->queue.len) {
		ssize_t n = write(watch_fd(in->watch), in->queue.data, in->queue.len);

		if (n > 0)
			buf_consume(&in->queue, (size_t)n);
		else if (n < 0 && errno == EAGAIN)
			break;
		else if (n < 0 && errno != EINTR)
			input_close(in);
	}
	if (!in->watch)
		return;
	watch_events(in->watch, in->queue.len ? UV_WRITABLE : 0);
	if (!in->queue.len && in->eof)
		input_close(in);
}

static void on_input(void *user, int events)
{
	struct input *in = user;

	flush(in);
	in->changed(in->user);
}

int input_open(struct input *in, struct agent *a, int fd, bool tty)
{
	in->tty = tty;
	in->watch = watch_nonblocking(a, fd, on_input, in);
	return in->watch ? 0 : -ENOMEM;
}

int input_take(struct input *in, uint64_t offset, const uint8_t *data, size_t len, bool eof)
{
	static const uint8_t end_of_input = 4; /* a terminal's way to say it */
	uint64_t known;

	if (offset > in->accepted)
		return -ERANGE;
	known = in->accepted - offset;
	if (in->watch && known < len) {
		size_t room = INPUT_MAX > in->queue.len ? INPUT_MAX - in->queue.len : 0, n = len - (size_t)known;

		n = n < room ? n : room;
		buf_append(&in->queue, data + known, n);
		if (in->queue.failed)
			input_close(in);
		in->accepted += n;
	}
	if (!in->watch && offset + len > in->accepted)
		in->accepted = offset + len; /* nobody reads it: gone */
	if (eof && !in->eof && in->accepted == offset + len) {
		in->eof = true;
		if (in->tty)
			buf_append(&in->queue, &end_of_input, 1);
	}
	flush(in);
	return 0;
}

void input_close(struct input *in)
{
	watch_free(steal_ptr(in->watch));
	buf_free(&in->queue);
}
