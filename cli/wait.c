/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/wait.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "cli/zone/zone.h"

#include <string.h>

#define TICK_MS 100
#define ASK_TICKS 20 /* between two questions */

typedef Protect__Control__V1__Zone Zone;
typedef Protect__Control__V1__Workload Workload;

struct waiter {
	struct cli *cli;
	struct grpc_stream *stream; /* NULL when it has ended */
	uv_timer_t timer;
	bool timer_open;
	const char *id;     /* what is waited for; NULL: nothing yet */
	bool of_zones;
	void *latest;       /* Zone or Workload of the last event about it */
	unsigned ticks;
	struct progress *progress;
};

static void keep(struct waiter *w, const void *object, const char *id)
{
	if (!w->id || strcmp(w->id, id))
		return;
	cli_free_message(&w->latest);
	w->latest = cli_copy_message(object);
}

static void on_message(struct grpc_stream *s, const ProtobufCMessage *m, void *user)
{
	const Protect__Control__V1__WatchEventsReply *e = (const void *)m;
	struct waiter *w = user;

	if (e->event_case == PROTECT__CONTROL__V1__WATCH_EVENTS_REPLY__EVENT_ZONE_CHANGED && e->zone_changed->zone && w->of_zones)
		keep(w, e->zone_changed->zone, e->zone_changed->zone->id);
	else if (e->event_case == PROTECT__CONTROL__V1__WATCH_EVENTS_REPLY__EVENT_WORKLOAD_CHANGED && e->workload_changed->workload && !w->of_zones)
		keep(w, e->workload_changed->workload, e->workload_changed->workload->id);
}

static void on_done(struct grpc_stream *s, enum rpc_status status, const char *message, void *user)
{
	((struct waiter *)user)->stream = NULL;
}

static void on_tick(uv_timer_t *t)
{
	struct waiter *w = t->data;

	w->ticks++;
	if (w->progress)
		progress_tick(w->progress);
}

static void on_timer_closed(uv_handle_t *h)
{
	((struct waiter *)h->data)->timer_open = false;
}

struct waiter *wait_open(struct cli *cli, struct edera_error *err)
{
	static const struct grpc_stream_ops ops = { .message = on_message, .done = on_done };
	Protect__Control__V1__WatchEventsRequest request = PROTECT__CONTROL__V1__WATCH_EVENTS_REQUEST__INIT;
	struct waiter *w;

	if (cli_connect(cli, err))
		return NULL;
	w = need(calloc(1, sizeof *w));
	w->cli = cli;
	uv_timer_init(&cli->loop, &w->timer);
	w->timer.data = w;
	w->timer_open = true;
	uv_timer_start(&w->timer, on_tick, TICK_MS, TICK_MS);
	w->stream = grpc_client_open(cli->client, cli_service(CONTROL), "WatchEvents", 0, &ops, w);
	if (w->stream) {
		grpc_stream_send(w->stream, (const ProtobufCMessage *)&request);
		grpc_stream_half_close(w->stream);
	}
	return w;
}

void wait_close(struct waiter *w)
{
	if (!w)
		return;
	if (w->stream)
		grpc_stream_cancel(w->stream);
	uv_close((uv_handle_t *)&w->timer, on_timer_closed);
	while (w->stream || w->timer_open)
		uv_run(&w->cli->loop, UV_RUN_ONCE);
	cli_free_message(&w->latest);
	free(w);
}

/* The object as it is now; NULL if there is none. */
static int ask(struct waiter *w, void **ret, struct edera_error *err)
{
	Protect__Control__V1__GetZoneRequest zone = PROTECT__CONTROL__V1__GET_ZONE_REQUEST__INIT;
	Protect__Control__V1__GetWorkloadRequest workload = PROTECT__CONTROL__V1__GET_WORKLOAD_REQUEST__INIT;
	Protect__Control__V1__GetZoneReply *got_zone _message_ = NULL;
	Protect__Control__V1__GetWorkloadReply *got_workload _message_ = NULL;
	int r;

	*ret = NULL;
	zone.zone_id = workload.workload_id = (char *)w->id;
	if (w->of_zones)
		r = cli_call(w->cli, CONTROL, "GetZone", &zone, &got_zone, err);
	else
		r = cli_call(w->cli, CONTROL, "GetWorkload", &workload, &got_workload, err);
	if (r)
		return r == -ENOENT ? 0 : r;
	if (got_zone)
		*ret = steal_ptr(got_zone->zone);
	if (got_workload)
		*ret = steal_ptr(got_workload->workload);
	return 0;
}

/* Until there is news or it is time to ask. 0, or -EINTR. */
static int news(struct waiter *w, void **ret, struct edera_error *err)
{
	unsigned until = w->ticks + ASK_TICKS;

	while (!w->latest && !w->cli->interrupted && w->ticks != until)
		uv_run(&w->cli->loop, UV_RUN_ONCE);
	if (w->cli->interrupted)
		return err_set(err, -EINTR, "interrupted");
	if (!w->latest)
		return ask(w, ret, err);
	*ret = steal_ptr(w->latest);
	return 0;
}

/* The next thing waited for may have the same id, and this one's may be freed before. */
static void waited(struct waiter *w)
{
	w->id = NULL;
	w->progress = NULL;
	cli_free_message(&w->latest);
	w->latest = NULL;
}

int wait_zone(struct waiter *w, const char *id, bool (*verdict)(const Zone *), struct progress *progress, Zone **ret, struct edera_error *err)
{
	Zone *now _message_ = NULL;
	int r;

	w->id = id;
	w->of_zones = true;
	w->progress = progress;
	r = ask(w, (void **)&now, err);
	while (!r && !verdict(now)) {
		struct buf word _buf_ = BUF_INIT;

		if (progress) {
			format_enum_word(&word, &protect__control__v1__zone_state__descriptor, (int)zone_state(now));
			progress_say(progress, (const char *)word.data);
		}
		cli_free_message(&now);
		now = NULL;
		r = news(w, (void **)&now, err);
	}
	waited(w);
	if (!r)
		*ret = steal_ptr(now);
	return r;
}

int wait_workload(struct waiter *w, const char *id, bool (*verdict)(const Workload *), Workload **ret, struct edera_error *err)
{
	Workload *now _message_ = NULL;
	int r;

	w->id = id;
	w->of_zones = false;
	r = ask(w, (void **)&now, err);
	while (!r && !verdict(now)) {
		cli_free_message(&now);
		now = NULL;
		r = news(w, (void **)&now, err);
	}
	waited(w);
	if (!r)
		*ret = steal_ptr(now);
	return r;
}
