/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest useful plugin: a source of kernel variants that offers one, named in the configuration:
 *
 *     [plugins]
 *     kernel-variant-sources = ["config", "hello"]
 *
 *     [plugin.hello]
 *     variant = "edge"
 *     image = "registry.example/zone-kernel:7.1"
 *
 * It needs nothing but the installed headers, and has no undefined reference into the daemon. */
#include <edera/variant_source.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* What init makes and every later call gets back as `inst`. */
struct hello {
	const struct edera_host *host;
	const struct edera_conf *conf; /* valid until fini, and so are the strings that come out of it */
};

/* Called on a worker thread, and by several of them at once. */
static int list(void *inst, const struct edera_call *call, uint32_t flags, int (*cb)(void *user, const struct edera_variant *), void *user,
		struct edera_error *err)
{
	const struct hello *h = inst;
	const struct edera_variant v = {
		.size = sizeof v,
		.name = h->host->conf_str(h->conf, "variant"),
		.image = h->host->conf_str(h->conf, "image"),
		.digest = "",
		.version = "",
	};

	(void)call; /* nothing here takes time, so the deadline does not matter */
	(void)flags;
	(void)err;
	return v.image[0] ? cb(user, &v) : 0;
}

/* A function that fails returns a negative errno and one sentence: what was attempted, on what, why it failed. */
static int fail(struct edera_error *err, int code, const char *sentence)
{
	if (err) {
		err->code = code;
		snprintf(err->msg, sizeof err->msg, "%s", sentence);
	}
	return code;
}

static int init(const struct edera_host *host, const struct edera_conf *conf, void **ret_inst, struct edera_error *err)
{
	struct hello *h;

	if (!host->conf_str(conf, "variant")[0])
		return fail(err, -EINVAL, "plugin.hello.variant is empty: expected a variant's name");
	h = malloc(sizeof *h);
	if (!h)
		return fail(err, -ENOMEM, "no memory for the hello plugin");
	h->host = host;
	h->conf = conf;
	host->log(host->core, EDERA_LOG_DEBUG, "hello");
	*ret_inst = h;
	return 0;
}

static int reload(void *inst, const struct edera_conf *conf, struct edera_error *err)
{
	struct hello *h = inst;

	(void)err;
	h->conf = conf; /* the old one stays readable for a call that is still running */
	return 0;
}

static void fini(void *inst) { free(inst); }

static const struct edera_variant_source_ops ops = { .size = sizeof ops, .list = list };

static const struct edera_provide provides[] = {
	{ .kind = EDERA_KIND_VARIANT_SOURCE, .name = "hello", .ops = &ops },
	{ 0 },
};

static const struct edera_conf_key keys[] = {
	{ "variant", EDERA_CONF_STRING, 0, "hello", "Name of the variant." },
	{ "image", EDERA_CONF_STRING, 0, NULL, "OCI reference of its kernel image. Empty: none is offered." },
	{ 0 },
};

EDERA_PLUGIN_DEFINE(
	.name = "hello",
	.version = "1.0",
	.summary = "One kernel variant from the configuration: an example",
	.license = "Apache-2.0",
	.provides = provides,
	.conf = keys,
	.init = init,
	.reload = reload,
	.fini = fini);
