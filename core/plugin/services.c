/* SPDX-License-Identifier: Apache-2.0 */
/* struct edera_host: what a plugin may ask the daemon for. `core` is the plugin's own entry, so that each service knows who asks. */
#include "plugin/host_impl.h"
#include "base/log.h"
#include "base/spawn.h"
#include "oci.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOG_WINDOW 10 /* seconds, in which a plugin may log ... */
#define LOG_LINES 200 /* ... so many lines */

/* A plugin may pass on what a guest or registry makes it say, so it gets a share of the log and no more. */
static bool may_log(struct plugin *p, unsigned *ret_dropped)
{
	struct timespec now;
	bool may;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	*ret_dropped = 0;
	pthread_mutex_lock(&p->host->lock);
	if (now.tv_sec - p->log_since >= LOG_WINDOW) {
		*ret_dropped = p->log_lines > LOG_LINES ? p->log_lines - LOG_LINES : 0;
		p->log_since = now.tv_sec;
		p->log_lines = 0;
	}
	may = ++p->log_lines <= LOG_LINES;
	pthread_mutex_unlock(&p->host->lock);
	return may;
}

static void host_log(void *core, int priority, const char *message)
{
	struct plugin *p = core;
	unsigned dropped;
	bool may;

	if (priority > log_level())
		return;
	may = may_log(p, &dropped);
	if (dropped)
		log_format(EDERA_LOG_WARNING, "the plugin %s logged too much: %u lines were left out", p->name, dropped);
	if (may)
		log_fields(priority, message ? message : "", "plugin", p->name, NULL);
}

static int host_conf_each(void *core, const char *section, int (*cb)(void *, const char *, const char *), void *user)
{
	_conf_ struct conf *c = plugin_host_conf(((struct plugin *)core)->host);

	return c ? conf_each(c, section, cb, user) : -ENOENT;
}

static const char *host_path(void *core, enum edera_path which)
{
	const struct plugin_host_options *o = &((struct plugin *)core)->host->options;

	switch (which) {
	case EDERA_PATH_DATA:
		return o->data_dir;
	case EDERA_PATH_RUN:
		return o->run_dir;
	case EDERA_PATH_CACHE:
		return o->cache_dir;
	}
	return NULL;
}

static int host_watch_fd(void *core, int fd, uint32_t events, void (*cb)(void *, uint32_t), void *user, uint64_t *ret_id)
{
	struct plugin *p = core;

	return watch_fd(p->host->watches, p, fd, events, cb, user, ret_id);
}

static int host_timer(void *core, uint64_t after_ms, uint64_t repeat_ms, void (*cb)(void *, uint32_t), void *user, uint64_t *ret_id)
{
	struct plugin *p = core;

	return watch_timer(p->host->watches, p, after_ms, repeat_ms, cb, user, ret_id);
}

static int host_unwatch(void *core, uint64_t id)
{
	struct plugin *p = core;

	return watch_remove(p->host->watches, p, id);
}

static int host_spawn(void *core, const struct edera_spawn *asked, int *ret_pidfd, struct edera_error *err)
{
	struct edera_spawn s = { 0 };

	(void)core;
	memcpy(&s, asked, asked->size < sizeof s ? asked->size : sizeof s);
	if (!s.argv || !s.argv[0] || s.argv[0][0] != '/')
		return err_set(err, -EINVAL, "cannot start a program that is not named by its absolute path");
	return spawn(&s, ret_pidfd, NULL, err);
}

/* A VM event on its way to the loop: one allocation, freed by the poster. */
struct event {
	enum edera_vm_event what;
	const char *detail; /* into text, or NULL */
	char text[];        /* id NUL detail NUL */
};

static void deliver_event(void *user, void *data)
{
	struct plugin *p = user;
	struct event *e = data;

	p->host->options.vm_event(p->host->options.user, p->name, e->text, e->what, e->detail);
}

static void host_vm_event(void *core, const char *vm_id, enum edera_vm_event what, const char *detail)
{
	struct plugin *p = core;
	size_t id_size = strlen(vm_id) + 1, detail_size = detail ? strnlen(detail, 1024) + 1 : 0;
	struct event *e = p->host->options.vm_event ? malloc(sizeof *e + id_size + detail_size) : NULL;

	if (!e)
		return;
	e->what = what;
	e->detail = NULL;
	memcpy(e->text, vm_id, id_size);
	if (detail) {
		memcpy(e->text + id_size, detail, detail_size - 1);
		e->text[id_size + detail_size - 1] = 0;
		e->detail = e->text + id_size;
	}
	watch_post(p->host->watches, deliver_event, p, e);
}

static int host_oci_run(void *core, const struct edera_call *call, const struct edera_oci_run *asked, struct edera_error *err)
{
	struct plugin *p = core;
	_conf_ struct conf *c = plugin_host_conf(p->host);
	struct edera_oci_run run = { 0 };

	memcpy(&run, asked, asked->size < sizeof run ? asked->size : sizeof run);
	if (!c)
		return err_set(err, -EAGAIN, "the daemon has not read its configuration yet");
	return oci_run(c, p->host->options.data_dir, call, &run, err);
}

void services_init(struct plugin *p)
{
	p->services = (struct edera_host){
		.size = sizeof p->services,
		.abi_major = EDERA_ABI_MAJOR,
		.abi_minor = EDERA_ABI_MINOR,
		.core = p,
		.log = host_log,
		.conf_str = edera_conf_str,
		.conf_int = edera_conf_int,
		.conf_bool = edera_conf_bool,
		.conf_list = edera_conf_list,
		.conf_each = host_conf_each,
		.path = host_path,
		.watch_fd = host_watch_fd,
		.timer = host_timer,
		.unwatch = host_unwatch,
		.spawn = host_spawn,
		.vm_event = host_vm_event,
		.oci_run = host_oci_run,
	};
}
