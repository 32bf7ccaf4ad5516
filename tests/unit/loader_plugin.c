/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin that test_plugin_loader compiles again and again, each time with another fault: every macro here can be set with -D. */
#include <edera/hypervisor.h>
#include <edera/image_store.h>
#include <edera/variant_source.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef NAME
#define NAME "hello"
#endif
#ifndef KIND
#define KIND 3
#endif
#ifndef PROVIDED
#define PROVIDED NAME
#endif
#ifndef MAGIC
#define MAGIC EDERA_PLUGIN_MAGIC
#endif
#ifndef MAJOR
#define MAJOR EDERA_ABI_MAJOR
#endif
#ifndef MIN_HOST_MINOR
#define MIN_HOST_MINOR 0
#endif
#ifndef SIZE
#define SIZE sizeof(struct edera_plugin)
#endif
#ifndef SYMBOL
#define SYMBOL edera_plugin_v1
#endif
#ifndef PROBE
#define PROBE 0
#endif
#ifndef INIT
#define INIT 0
#endif
#ifndef START
#define START 0
#endif
#ifndef CAPS
#define CAPS EDERA_HV_OWN_KERNEL
#endif
#ifndef LIST_OP
#define LIST_OP list_variants
#endif
#ifndef CONSOLE_OP
#define CONSOLE_OP NULL
#endif
#ifndef NEEDS
#define NEEDS { 0 }
#endif
#ifndef KEYS
#define KEYS { 0 }
#endif

/* One line for each call, so that the test sees who was called when. */
static void trace(const char *what)
{
	const char *path = getenv("LOADER_TRACE");
	char line[200];
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
	int n = snprintf(line, sizeof line, NAME ":%s ", what);

	if (fd < 0 || write(fd, line, (size_t)n) != n)
		abort();
	close(fd);
}

static int fail(struct edera_error *err, int code, const char *why)
{
	if (code && err) {
		err->code = code;
		snprintf(err->msg, sizeof err->msg, "%s", why);
	}
	return code;
}

__attribute__((unused)) static int list_variants(void *inst, const struct edera_call *call, uint32_t flags,
						 int (*cb)(void *, const struct edera_variant *), void *user, struct edera_error *err)
{
	struct edera_variant v = { .size = sizeof v, .name = "v", .image = "example.com/" NAME, .digest = "", .version = "" };

	(void)inst, (void)call, (void)flags, (void)err;
	return cb(user, &v);
}

__attribute__((unused)) static int hv_op() { return -ENOSYS; }

#if KIND == 1
#define HV(op) .op = (void *)hv_op
static const struct edera_hypervisor_ops ops = {
	.size = sizeof ops, HV(vm_create), HV(vm_start), HV(vm_stop), HV(vm_destroy), HV(vm_info), HV(vm_list), HV(vm_channel),
	.vm_console = (void *)CONSOLE_OP,
};
#elif KIND == 2
static const struct edera_image_store_ops ops = {
	.size = sizeof ops, .pull = (void *)hv_op, .list = (void *)hv_op, .remove = (void *)hv_op, .file = (void *)hv_op,
};
#else
static const struct edera_variant_source_ops ops = { .size = sizeof ops, .list = LIST_OP };
#endif

static const struct edera_provide provides[] = { { .kind = KIND, .name = PROVIDED, .caps = CAPS, .ops = &ops }, { 0 } };
static const struct edera_require needs[] = { NEEDS, { 0 } };
static const struct edera_conf_key keys[] = { KEYS, { 0 } };

static int probe(const struct edera_host *host, const struct edera_conf *conf, struct edera_error *err)
{
	trace("probe");
	(void)host, (void)conf;
	return fail(err, PROBE, "the hardware is not there");
}

static void never(void *user, uint32_t events)
{
	(void)user, (void)events;
	abort();
}

static const struct edera_host *kept_host; /* the instance: the test reads it */

static int init(const struct edera_host *host, const struct edera_conf *conf, void **ret_inst, struct edera_error *err)
{
	uint64_t id;

	trace("init");
	(void)conf;
	/* What a failing init leaves behind must be gone. */
	if (INIT && host->timer(host->core, 1, 1, never, NULL, &id))
		abort();
	kept_host = host;
	*ret_inst = &kept_host;
	return fail(err, INIT, "the door is shut");
}

static int start(void *inst, struct edera_error *err)
{
	trace("start");
	(void)inst;
	return fail(err, START, "the engine is cold");
}

static int reload(void *inst, const struct edera_conf *conf, struct edera_error *err)
{
	trace("reload");
	(void)inst, (void)conf, (void)err;
	return 0;
}

static void stop(void *inst)
{
	(void)inst;
	trace("stop");
}

static void fini(void *inst)
{
	(void)inst;
	trace("fini");
}

extern EDERA_PLUGIN_EXPORT const struct edera_plugin SYMBOL;
EDERA_PLUGIN_EXPORT const struct edera_plugin SYMBOL = {
	.magic = MAGIC, .size = SIZE, .abi_major = MAJOR, .abi_minor = EDERA_ABI_MINOR, .min_host_minor = MIN_HOST_MINOR,
	.name = NAME, .version = "1.2", .summary = "For the loader's test", .license = "Apache-2.0", .provides = provides, .needs = needs,
	.conf = keys, .probe = probe, .init = init, .start = start, .reload = reload, .stop = stop, .fini = fini,
};
