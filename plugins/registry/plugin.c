/* SPDX-License-Identifier: Apache-2.0 */
/* The variant source "registry". */
#include "registry.h"
#include "base/error.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int init(const struct edera_host *host, const struct edera_conf *conf, void **ret_inst, struct edera_error *err)
{
	struct registry *g = calloc(1, sizeof *g);
	int r = g ? settings_read(host, conf, &g->settings, err) : err_errno(err, -ENOMEM, "cannot start");

	if (!r) {
		g->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r = g->cancel_fd < 0 ? err_errno(err, -errno, "cannot start") : 0;
	}
	if (r) {
		if (g)
			settings_free(g->settings);
		free(g);
		return r;
	}
	g->host = host;
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->done, NULL);
	*ret_inst = g;
	return 0;
}

static int reload(void *inst, const struct edera_conf *conf, struct edera_error *err)
{
	struct registry *g = inst;
	struct settings *now;
	int r = settings_read(g->host, conf, &now, err);

	if (!r)
		source_set_settings(g, now);
	return r;
}

static void stop(void *inst) { source_stop(inst); }

static void fini(void *inst)
{
	struct registry *g = inst;

	settings_free(g->settings);
	pthread_cond_destroy(&g->done);
	pthread_mutex_destroy(&g->lock);
	close(g->cancel_fd);
	free(g);
}

static const struct edera_variant_source_ops ops = { .size = sizeof ops, .list = source_list };
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
	.stop = stop,
	.fini = fini);
