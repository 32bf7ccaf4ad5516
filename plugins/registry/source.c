/* SPDX-License-Identifier: Apache-2.0 */
/* The op: gives what is known, and sees to it that it is not too old. A registry is asked by a thread of its own, so that a slow or silent
 * one costs a launch a few seconds at most; only what was never known is waited for. */
#include "registry.h"
#include "base/cleanup.h"
#include "base/error.h"

#include <poll.h>
#include <string.h>
#include <time.h>

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int64_t now_seconds(void) { return now_ns() / 1000000000; }

/* Too old, or never known; a registry that just failed is left alone. */
static bool is_due(const struct settings *s, const struct repository *p)
{
	int64_t age = time(NULL) - p->catalog.fetched;

	if (p->wanted)
		return true;
	if (p->failed_at && now_seconds() - p->failed_at < RETRY_SECONDS)
		return false;
	return !p->catalog.fetched || age < 0 || age >= s->refresh;
}

/* Locked. By name: the settings may have been replaced while the registry was asked. */
static struct repository *find(struct registry *g, const char *name)
{
	for (size_t i = 0; i < g->settings->n_repositories; i++)
		if (!strcmp(g->settings->repositories[i].name, name))
			return &g->settings->repositories[i];
	return NULL;
}

/* Locked on entry and exit. `s` stays until the refresh ends, even if it is replaced. */
static void refresh_one(struct registry *g, const struct settings *s, const char *name)
{
	const struct edera_call call = { .size = sizeof call, .cancel_fd = g->cancel_fd, .deadline_ns = now_ns() + FETCH_SECONDS * INT64_C(1000000000) };
	struct edera_error err = EDERA_ERROR_INIT, not_saved = EDERA_ERROR_INIT;
	struct catalog fresh = { 0 };
	struct repository *p;
	int r;

	pthread_mutex_unlock(&g->lock);
	r = fetch(g->host, s, &call, name, &fresh, &err);
	fresh.fetched = time(NULL);
	if (r) {
		err_wrap(&err, "cannot look for kernel variants in %s", name);
		g->host->log(g->host->core, EDERA_LOG_WARNING, err.msg);
	} else if (catalog_save(g->host, name, &fresh, &not_saved)) {
		g->host->log(g->host->core, EDERA_LOG_WARNING, not_saved.msg); /* it works without, only not offline */
	}
	pthread_mutex_lock(&g->lock);
	p = find(g, name);
	if (p) {
		p->wanted = false;
		p->failed_at = r ? now_seconds() : 0;
		p->code = r;
		snprintf(p->why, sizeof p->why, "%s", err.msg);
	}
	if (p && !r) {
		catalog_free(&p->catalog);
		p->catalog = fresh;
	} else {
		catalog_free(&fresh);
	}
}

static void free_retired(struct registry *g)
{
	while (g->retired) {
		struct settings *next = g->retired->next;

		settings_free(g->retired);
		g->retired = next;
	}
}

static void *refresher(void *user)
{
	struct registry *g = user;
	struct settings *s;

	pthread_mutex_lock(&g->lock);
	s = g->settings;
	for (size_t i = 0; i < s->n_repositories; i++)
		if (is_due(s, &s->repositories[i]))
			refresh_one(g, s, s->repositories[i].name);
	g->refreshing = false;
	free_retired(g);
	pthread_cond_broadcast(&g->done);
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

/* Locked. */
static void start_refresh(struct registry *g)
{
	if (g->refreshing)
		return;
	if (g->has_thread)
		pthread_join(g->thread, NULL); /* it is at its end */
	g->has_thread = g->refreshing = !pthread_create(&g->thread, NULL, refresher, g);
}

static bool was_cancelled(const struct edera_call *call)
{
	struct pollfd p = { .fd = call ? call->cancel_fd : -1, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Locked. Until the refresh ended, the time is up, or the caller went away. */
static void wait_for_refresh(struct registry *g, const struct edera_call *call, int64_t patience)
{
	int64_t until = now_ns() + patience * INT64_C(1000000000);

	if (call && call->deadline_ns && call->deadline_ns < until)
		until = call->deadline_ns;
	while (g->refreshing && now_ns() < until && !was_cancelled(call)) {
		int64_t step = now_ns() + 100 * 1000000; /* a condition cannot be polled along with a descriptor */
		struct timespec ts;

		step = step < until ? step : until;
		ts = (struct timespec){ step / 1000000000, step % 1000000000 };
		pthread_cond_clockwait(&g->done, &g->lock, CLOCK_MONOTONIC, &ts);
	}
}

/* An earlier repository's variant hides a later one's of the same name. */
static bool is_hidden(const struct settings *s, size_t repository, const char *name)
{
	for (size_t i = 0; i < repository; i++)
		for (size_t j = 0; j < s->repositories[i].catalog.n; j++)
			if (!strcmp(s->repositories[i].catalog.list[j].name, name))
				return true;
	return false;
}

static int give(const struct settings *s, size_t repository, int (*cb)(void *, const struct edera_variant *), void *user)
{
	const struct repository *p = &s->repositories[repository];
	char image[512];
	int r = 0;

	for (size_t i = 0; i < p->catalog.n && !r; i++) {
		const struct variant *v = &p->catalog.list[i];
		const struct edera_variant out = { .size = sizeof out, .name = v->name, .image = image, .digest = v->digest, .version = v->version };

		snprintf(image, sizeof image, "%s:%s", p->name, v->tag);
		if (!is_hidden(s, repository, v->name))
			r = cb(user, &out);
	}
	return r;
}

/* Locked. What is to be done before anything can be given: how long to wait, 0 for not at all. */
static int64_t patience_for(struct registry *g, uint32_t flags)
{
	int64_t patience = 0;

	for (size_t i = 0; i < g->settings->n_repositories; i++) {
		struct repository *p = &g->settings->repositories[i];

		if (!p->read)
			catalog_load(g->host, p->name, &p->catalog);
		p->read = true;
		p->wanted = p->wanted || (flags & EDERA_VARIANT_REFRESH);
		if (is_due(g->settings, p))
			patience = p->wanted || !p->catalog.fetched || patience == FETCH_SECONDS ? FETCH_SECONDS : PATIENCE_SECONDS;
	}
	return patience;
}

/* Locked. Nothing is known of any repository: the first one's reason. */
static int nothing_known(const struct registry *g, struct edera_error *err)
{
	const struct repository *first = NULL;

	for (size_t i = 0; i < g->settings->n_repositories; i++) {
		const struct repository *p = &g->settings->repositories[i];

		if (p->catalog.fetched)
			return 0;
		first = first ? first : p;
	}
	if (!first)
		return 0;
	if (first->code)
		return err_set(err, first->code, "%s", first->why);
	return err_set(err, -ETIMEDOUT, "cannot look for kernel variants in %s: it has not answered yet", first->name);
}

int source_list(void *inst, const struct edera_call *call, uint32_t flags, int (*cb)(void *, const struct edera_variant *), void *user,
		struct edera_error *err)
{
	struct registry *g = inst;
	int64_t patience;
	int r;

	pthread_mutex_lock(&g->lock);
	patience = patience_for(g, flags);
	if (patience) {
		start_refresh(g);
		wait_for_refresh(g, call, patience);
	}
	r = nothing_known(g, err);
	for (size_t i = 0; i < g->settings->n_repositories && !r; i++)
		r = give(g->settings, i, cb, user);
	pthread_mutex_unlock(&g->lock);
	return r;
}

void source_set_settings(struct registry *g, struct settings *now)
{
	pthread_mutex_lock(&g->lock);
	g->settings->next = g->retired;
	g->retired = g->settings;
	g->settings = now;
	if (!g->refreshing)
		free_retired(g);
	pthread_mutex_unlock(&g->lock);
}

void source_stop(struct registry *g)
{
	bool has_thread;

	if (write(g->cancel_fd, &(uint64_t){ 1 }, sizeof(uint64_t)) < 0)
		return; /* cannot be: the counter is far from full */
	pthread_mutex_lock(&g->lock);
	has_thread = g->has_thread;
	g->has_thread = false;
	pthread_mutex_unlock(&g->lock);
	if (has_thread)
		pthread_join(g->thread, NULL);
}
