/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"
#include "base/log.h"

#include <stdlib.h>

struct output_viewer {
	struct output *output;
	struct output_viewer *prev, *next;
	const struct output_viewer_ops *ops;
	void *user;
	uint64_t pos;
	bool follow, hold, pumping, dead;
};

struct output {
	struct record *record;
	struct output_viewer *viewers;
	void (*lag)(void *, bool);
	void *lag_user;
	bool ended, behind;
};

struct output *output_new(const char *path, struct edera_error *err)
{
	struct output *o = calloc(1, sizeof *o);

	if (!o) {
		err_errno(err, -ENOMEM, "cannot keep output in '%s'", path);
		return NULL;
	}
	o->record = record_open(path, err);
	if (!o->record) {
		free(o);
		return NULL;
	}
	return o;
}

struct record *output_record(struct output *o) { return o->record; }

static void check_lag(struct output *o)
{
	bool behind = false;

	for (struct output_viewer *v = o->viewers; v; v = v->next)
		behind |= v->hold && record_end(o->record) > v->pos + OUTPUT_LAG_MAX;
	if (behind != o->behind) {
		o->behind = behind;
		if (o->lag)
			o->lag(o->lag_user, behind);
	}
}

static void viewer_unlink(struct output_viewer *v)
{
	if (v->prev)
		v->prev->next = v->next;
	else
		v->output->viewers = v->next;
	if (v->next)
		v->next->prev = v->prev;
}

void output_viewer_free(struct output_viewer *v)
{
	struct output *o;

	if (!v || v->dead)
		return;
	o = v->output;
	viewer_unlink(v);
	v->dead = true;
	if (!v->pumping)
		free(v);
	check_lag(o);
}

static void viewer_end(struct output_viewer *v)
{
	const struct output_viewer_ops *ops = v->ops;
	void *user = v->user;

	output_viewer_free(v);
	ops->ended(user);
}

void output_viewer_pump(struct output_viewer *v)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct buf b = BUF_INIT;
	int stream = 0, r = 1;

	if (!v || v->dead || v->pumping)
		return;
	v->pumping = true;
	while (!v->dead && v->ops->writable(v->user)) {
		buf_clear(&b);
		r = record_read(v->output->record, &v->pos, &stream, &b, &err);
		if (r < 0)
			log_error(err.msg, NULL);
		if (r <= 0)
			break;
		v->ops->chunk(v->user, stream, b.data, b.len);
	}
	buf_free(&b);
	v->pumping = false;
	if (v->dead) {
		free(v);
		return;
	}
	check_lag(v->output);
	if (r < 0 || (r == 0 && (v->output->ended || !v->follow)))
		viewer_end(v);
}

static void pump_all(struct output *o)
{
	for (struct output_viewer *v = o->viewers, *next; v; v = next) {
		next = v->next;
		output_viewer_pump(v);
	}
}

int output_append(struct output *o, int stream, uint64_t offset, const void *data, size_t len, struct edera_error *err)
{
	int r = record_append(o->record, stream, offset, data, len, err);

	pump_all(o);
	check_lag(o);
	return r;
}

void output_end(struct output *o)
{
	o->ended = true;
	pump_all(o);
}

void output_on_lag(struct output *o, void (*lag)(void *, bool), void *user)
{
	o->lag = lag;
	o->lag_user = user;
}

struct output_viewer *output_view(struct output *o, bool history, bool follow, bool hold, const struct output_viewer_ops *ops, void *user)
{
	struct output_viewer *v = calloc(1, sizeof *v);

	if (!v)
		abort();
	*v = (struct output_viewer){ .output = o, .ops = ops, .user = user, .follow = follow, .hold = hold, .pos = history ? 0 : record_end(o->record) };
	v->next = o->viewers;
	if (v->next)
		v->next->prev = v;
	o->viewers = v;
	return v;
}

void output_viewer_unfollow(struct output_viewer *v)
{
	v->follow = false;
	output_viewer_pump(v);
}

void output_free(struct output *o)
{
	if (!o)
		return;
	o->lag = NULL;
	while (o->viewers)
		viewer_end(o->viewers);
	record_close(o->record);
	free(o);
}
