/* SPDX-License-Identifier: Apache-2.0 */
/* The variant source "registry". */
#include "registry.h"
#include "base/cleanup.h"
#include "base/error.h"

#include <string.h>
#include <time.h>

static int64_t seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec;
}

/* Asks again when what is known is too old, or on demand; leaves a registry that just failed alone. */
static bool is_due(const struct registry *g, const struct repository *p, uint32_t flags)
{
	int64_t age = seconds(CLOCK_REALTIME) - p->catalog.fetched;

	if (flags & EDERA_VARIANT_REFRESH)
		return true;
	if (p->failed_at && seconds(CLOCK_MONOTONIC) - p->failed_at < RETRY_SECONDS)
		return false;
	return !p->catalog.fetched || age < 0 || age >= g->settings.refresh;
}

static struct edera_call bounded(const struct edera_call *call)
{
	int64_t latest = (seconds(CLOCK_MONOTONIC) + FETCH_SECONDS) * INT64_C(1000000000);
	struct edera_call c = { .size = sizeof c, .cancel_fd = call ? call->cancel_fd : -1, .deadline_ns = call ? call->deadline_ns : 0 };

	if (!c.deadline_ns || c.deadline_ns > latest)
		c.deadline_ns = latest;
	return c;
}

static int refresh(struct registry *g, struct repository *p, const struct edera_call *call, struct edera_error *err)
{
	const struct edera_call bound = bounded(call);
	struct edera_error why = EDERA_ERROR_INIT;
	struct catalog fresh = { 0 };
	int r = fetch(g, &bound, p->name, &fresh, err);

	if (r) {
		p->failed_at = seconds(CLOCK_MONOTONIC);
		return err_wrap(err, "cannot look for kernel variants in %s", p->name);
	}
	p->failed_at = 0;
	fresh.fetched = seconds(CLOCK_REALTIME);
	catalog_free(&p->catalog);
	p->catalog = fresh;
	if (catalog_save(g->host, p->name, &p->catalog, &why))
		g->host->log(g->host->core, EDERA_LOG_WARNING, why.msg); /* it works without, only not offline */
	return 0;
}

/* An earlier repository's variant hides a later one's of the same name. */
static bool is_hidden(const struct registry *g, size_t repository, const char *name)
{
	for (size_t i = 0; i < repository; i++)
		for (size_t j = 0; j < g->settings.repositories[i].catalog.n; j++)
			if (!strcmp(g->settings.repositories[i].catalog.list[j].name, name))
				return true;
	return false;
}

static int give(const struct registry *g, size_t repository, int (*cb)(void *, const struct edera_variant *), void *user)
{
	const struct repository *p = &g->settings.repositories[repository];
	char image[512];
	int r = 0;

	for (size_t i = 0; i < p->catalog.n && !r; i++) {
		const struct variant *v = &p->catalog.list[i];
		const struct edera_variant out = { .size = sizeof out, .name = v->name, .image = image, .digest = v->digest, .version = v->version };

		snprintf(image, sizeof image, "%s:%s", p->name, v->tag);
		if (!is_hidden(g, repository, v->name))
			r = cb(user, &out);
	}
	return r;
}

static int list_locked(struct registry *g, const struct edera_call *call, uint32_t flags, int (*cb)(void *, const struct edera_variant *),
		       void *user, struct edera_error *err)
{
	struct edera_error first = EDERA_ERROR_INIT;
	size_t known = 0;
	int r = 0;

	for (size_t i = 0; i < g->settings.n_repositories; i++) {
		struct repository *p = &g->settings.repositories[i];
		struct edera_error why = EDERA_ERROR_INIT;

		if (!p->read)
			catalog_load(g->host, p->name, &p->catalog);
		p->read = true;
		if (is_due(g, p, flags) && refresh(g, p, call, &why)) {
			g->host->log(g->host->core, EDERA_LOG_WARNING, why.msg);
			if (!first.code)
				first = why;
		}
		known += p->catalog.fetched != 0;
	}
	if (first.code && !known) {
		*err = first;
		return first.code;
	}
	for (size_t i = 0; i < g->settings.n_repositories && !r; i++)
		r = give(g, i, cb, user);
	return r;
}

static int list(void *inst, const struct edera_call *call, uint32_t flags, int (*cb)(void *, const struct edera_variant *), void *user,
		struct edera_error *err)
{
	const struct edera_call bound = bounded(call);
	const struct timespec latest = { bound.deadline_ns / 1000000000, bound.deadline_ns % 1000000000 };
	struct registry *g = inst;
	int r;

	if (pthread_mutex_clocklock(&g->lock, CLOCK_MONOTONIC, &latest))
		return err_set(err, -ETIMEDOUT, "cannot list kernel variants: an earlier look at the registries is not finished");
	r = list_locked(g, call, flags, cb, user, err);
	pthread_mutex_unlock(&g->lock);
	return r;
}

static int init(const struct edera_host *host, const struct edera_conf *conf, void **ret_inst, struct edera_error *err)
{
	struct registry *g = calloc(1, sizeof *g);
	int r = g ? settings_read(host, conf, &g->settings, err) : err_errno(err, -ENOMEM, "cannot start");

	if (r) {
		free(g);
		return r;
	}
	g->host = host;
	pthread_mutex_init(&g->lock, NULL);
	*ret_inst = g;
	return 0;
}

/* On the loop thread: waits for no registry. */
static int reload(void *inst, const struct edera_conf *conf, struct edera_error *err)
{
	struct registry *g = inst;
	struct settings now;
	int r = settings_read(g->host, conf, &now, err);

	if (r)
		return r;
	if (pthread_mutex_trylock(&g->lock)) {
		settings_free(&now);
		return err_set(err, -EBUSY, "the registries are being looked at right now; reload again later");
	}
	settings_free(&g->settings);
	g->settings = now;
	pthread_mutex_unlock(&g->lock);
	return 0;
}

static void fini(void *inst)
{
	struct registry *g = inst;

	settings_free(&g->settings);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static const struct edera_variant_source_ops ops = { .size = sizeof ops, .list = list };
static const struct edera_provide provides[] = { { .kind = EDERA_KIND_VARIANT_SOURCE, .name = "registry", .ops = &ops }, { 0 } };

static const struct edera_conf_key keys[] = {
	{ "repositories", EDERA_CONF_LIST, 0, NULL, "Repositories with kernel images, as in \"ghcr.io/org/zone-kernel\". Of two that offer one name, the earlier wins." },
	{ "tags", EDERA_CONF_LIST, 0, "{\"*\"}", "Which tags are looked at: shell patterns." },
	{ "max-tags", EDERA_CONF_INT, 0, "100", "Most tags looked at in one repository; the newest by version." },
	{ "refresh", EDERA_CONF_STRING, 0, "1h", "Age at which the registry is asked again: a number and s, m, h or d." },
	{ 0 },
};

EDERA_PLUGIN_DEFINE(
	.name = "registry",
	.version = PACKAGE_VERSION,
	.summary = "Kernel variants found in registries by the annotations of their images",
	.license = "Apache-2.0",
	.provides = provides,
	.conf = keys,
	.init = init,
	.reload = reload,
	.fini = fini);
