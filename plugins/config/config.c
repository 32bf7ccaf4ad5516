/* SPDX-License-Identifier: Apache-2.0 */
/* The variants that an administrator wrote down, in [zone.kernel-variants]. */
#include <edera/variant_source.h>

struct walk {
	int (*cb)(void *user, const struct edera_variant *);
	void *user;
};

static int on_name(void *user, const char *name, const char *image)
{
	const struct edera_variant v = { .size = sizeof v, .name = name, .image = image, .digest = "", .version = "" };
	struct walk *w = user;

	return w->cb(w->user, &v);
}

static int list(void *inst, const struct edera_call *call, uint32_t flags, int (*cb)(void *user, const struct edera_variant *), void *user,
		struct edera_error *err)
{
	const struct edera_host *host = inst;
	struct walk w = { cb, user };

	(void)call;
	(void)flags;
	(void)err;
	return host->conf_each(host->core, "zone.kernel-variants", on_name, &w);
}

static int init(const struct edera_host *host, const struct edera_conf *conf, void **ret_inst, struct edera_error *err)
{
	(void)conf;
	(void)err;
	*ret_inst = (void *)host; /* it has no state but the way to ask */
	return 0;
}

static const struct edera_variant_source_ops ops = { .size = sizeof ops, .list = list };
static const struct edera_provide provides[] = { { .kind = EDERA_KIND_VARIANT_SOURCE, .name = "config", .ops = &ops }, { 0 } };

EDERA_PLUGIN_DEFINE(
	.name = "config",
	.version = PACKAGE_VERSION,
	.summary = "Kernel variants from [zone.kernel-variants] of the configuration file",
	.license = "Apache-2.0",
	.provides = provides,
	.init = init);
