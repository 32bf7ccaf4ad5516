/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one variant source as the daemon would, without a daemon: variants-run CONF PLUGIN.so DATA-DIR [--refresh]
 * The plugin gets the daemon's own configuration and provider services. Prints "name<TAB>image<TAB>digest<TAB>version" lines;
 * what the plugin logs goes to stderr as "log PRIORITY TEXT". */
#include "base/cleanup.h"
#include "base/path.h"
#include "conf/conf.h"
#include "oci.h"
#include "plugin/inspect.h"

#include <edera/variant_source.h>
#include <string.h>

static struct conf *conf;
static const char *data_dir;

static void host_log(void *core, int priority, const char *message)
{
	(void)core;
	fprintf(stderr, "log %d %s\n", priority, message);
}

static int host_conf_each(void *core, const char *section, int (*cb)(void *, const char *, const char *), void *user)
{
	(void)core;
	return conf_each(conf, section, cb, user);
}

static const char *host_path(void *core, enum edera_path which)
{
	static char cache[PATH_CAP];

	(void)core;
	if (which != EDERA_PATH_CACHE)
		return data_dir;
	path_format(cache, NULL, "%s/cache", data_dir);
	return cache;
}

static int host_oci_run(void *core, const struct edera_call *call, const struct edera_oci_run *run, struct edera_error *err)
{
	(void)core;
	return oci_run(conf, data_dir, call, run, err);
}

static int print(void *user, const struct edera_variant *v)
{
	(void)user;
	printf("%s\t%s\t%s\t%s\n", v->name, v->image, v->digest, v->version);
	return 0;
}

static int run(char **argv, uint32_t flags, struct edera_error *err)
{
	static const struct edera_host host = {
		.size = sizeof host, .abi_major = EDERA_ABI_MAJOR, .abi_minor = EDERA_ABI_MINOR, .log = host_log, .conf_str = edera_conf_str,
		.conf_int = edera_conf_int, .conf_bool = edera_conf_bool, .conf_list = edera_conf_list, .conf_each = host_conf_each,
		.path = host_path, .oci_run = host_oci_run,
	};
	const struct edera_variant_source_ops *ops;
	struct edera_conf *section;
	struct edera_plugin p;
	struct conf_plugin key;
	void *inst;
	int r = plugin_open(argv[2], argv[2], &p, err);

	if (!r)
		r = plugin_check_descriptor(&p, err);
	if (r)
		return r;
	key = (struct conf_plugin){ p.name, p.conf };
	r = conf_load(argv[1], &key, 1, &conf, err);
	if (r)
		return r;
	section = conf_plugin_section(conf, &key);
	r = p.init(&host, section, &inst, err);
	if (!r) {
		ops = p.provides->ops;
		r = ops->list(inst, NULL, flags, print, NULL, err);
		if (p.stop)
			p.stop(inst);
		if (p.fini)
			p.fini(inst);
	}
	edera_conf_free(section);
	conf_unref(conf);
	return r;
}

int main(int argc, char **argv)
{
	struct edera_error err = EDERA_ERROR_INIT;

	if (argc < 4) {
		fprintf(stderr, "usage: variants-run CONF PLUGIN.so DATA-DIR [--refresh]\n");
		return 2;
	}
	data_dir = argv[3];
	if (run(argv, argc > 4 && !strcmp(argv[4], "--refresh") ? EDERA_VARIANT_REFRESH : 0, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	return 0;
}
