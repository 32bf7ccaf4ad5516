/* SPDX-License-Identifier: Apache-2.0 */
/* protect-daemon: start, run, reload, stop. */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/reap.h"
#include "base/text.h"
#include "daemon.h"
#include "notify.h"
#include "options.h"
#include "service.h"
#include "workload.h"
#include "zone.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define LOCK_TRIES 40
#define LOCK_PAUSE_US 50000
#define WORKERS_MAX 64
#define STOP_GRACE_MS 3000
#define LOW_DESCRIPTORS 16

struct app {
	struct daemon d;
	struct options options;
	uv_loop_t loop;
	uv_signal_t term, interrupt, hup, child;
	bool stopping;
};

static void vm_event(void *user, const char *plugin, const char *vm_id, enum edera_vm_event event, const char *detail)
{
	(void)plugin;
	zone_vm_event(user, vm_id, event, detail);
}

static int make_dirs(struct daemon *d, const struct options *o, struct edera_error *err)
{
	char dir[PATH_CAP];
	int r;

	strcpy(d->data_dir, o->data_dir);
	strcpy(d->run_dir, o->run_dir);
	if ((r = path_format(d->cache_dir, err, "%s/cache", d->data_dir)) || (r = path_format(d->log_dir, err, "%s/logs", d->data_dir)) ||
	    (r = path_mkdirs(d->data_dir, 0755, err)) || (r = path_mkdirs(d->run_dir, 0755, err)) || (r = path_mkdirs(d->log_dir, 0700, err)))
		return r;
	/* The cache may be a symlink to another filesystem. */
	if (access(d->cache_dir, F_OK) < 0 && (r = path_mkdirs(d->cache_dir, 0711, err)))
		return r;
	if ((r = path_format(dir, err, "%s/zones", d->run_dir)) || (r = path_mkdirs(dir, 0711, err)))
		return r;
	return 0;
}

/* One daemon a data directory. The lock is held until the process ends. */
static int lock_data_dir(const struct daemon *d, struct edera_error *err)
{
	char path[PATH_CAP];
	int fd, r = path_format(path, err, "%s/.lock", d->data_dir);

	if (r)
		return r;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, -errno, "cannot open '%s'", path);
	/* One that was killed a moment ago may not be quite gone. */
	for (int tries = 0; (r = flock(fd, LOCK_EX | LOCK_NB)) < 0 && errno == EWOULDBLOCK && tries < LOCK_TRIES; tries++)
		usleep(LOCK_PAUSE_US);
	if (r < 0) {
		close(fd);
		return err_set(err, -EBUSY, "another protect-daemon runs on '%s'; stop it, or give this one its own with --data-dir", d->data_dir);
	}
	return 0;
}

static int host_uuid(struct daemon *d, struct edera_error *err)
{
	_buf_ struct buf b = BUF_INIT;
	char path[PATH_CAP];
	int r = path_format(path, err, "%s/host.uuid", d->data_dir);

	if (r)
		return r;
	r = path_read_file(path, 128, &b, err);
	if (r == 0) {
		snprintf(d->host_uuid, sizeof d->host_uuid, "%.36s", b.len ? (char *)b.data : "");
		return text_is_uuid(d->host_uuid) ? 0 : err_set(err, -EINVAL, "'%s' does not hold a UUID; remove it and a new one is made", path);
	}
	if (r != -ENOENT)
		return r;
	text_uuid(d->host_uuid);
	buf_printf(&b, "%s\n", d->host_uuid);
	return path_write_file(path, b.data, b.len, 0644, err);
}

static void log_conf_warnings(const struct conf *conf)
{
	for (size_t i = 0; i < conf_n_warnings(conf); i++)
		log_warning(conf_warning(conf, i), NULL);
}

static void apply_log_level(const struct options *o, const struct conf *conf)
{
	log_set_level(o->log_level ? o->log_level : log_parse_level(conf_str(conf, "daemon.log-level")));
}

/* Both passes: which plugins there are, then everything with their keys known. */
static int load_conf(struct daemon *d, const char *path, struct conf **ret, struct edera_error *err)
{
	const struct conf_plugin *known;
	_conf_ struct conf *first = NULL;
	size_t n;
	int r;

	if (plugin_host_count(d->plugins) == 0) {
		if ((r = conf_load_plugins(path, &first, err)) || (r = plugin_host_load(d->plugins, first, err)))
			return r;
	}
	known = plugin_host_conf_plugins(d->plugins, &n);
	return conf_load(path, known, n, ret, err);
}

static int new_plugin_host(struct app *a, struct edera_error *err)
{
	struct plugin_host_options o = { .data_dir = a->d.data_dir, .run_dir = a->d.run_dir, .cache_dir = a->d.cache_dir, .vm_event = vm_event, .user = &a->d };

	return plugin_host_new(&a->loop, &o, &a->d.plugins, err);
}

static void log_broken_plugins(struct plugin_host *plugins)
{
	for (size_t i = 0; i < plugin_host_count(plugins); i++) {
		struct plugin_info info;

		plugin_host_info(plugins, i, &info);
		if (info.state == PLUGIN_ERROR)
			log_warning("a plugin cannot be used", "plugin", info.name, "path", info.path, "reason", info.reason, NULL);
	}
}

static int socket_group(const struct conf *conf, gid_t *ret, struct edera_error *err)
{
	const char *name = conf_str(conf, "daemon.socket-group");
	struct group gr, *found = NULL;
	char space[4096];
	int r = getgrnam_r(name, &gr, space, sizeof space, &found);

	if (!found)
		return err_set(err, r ? -r : -ENOENT, "the group '%s' of [daemon] socket-group does not exist; create it (groupadd %s) or name another", name, name);
	*ret = gr.gr_gid;
	return 0;
}

static int listen_on(struct app *a, const char *path, gid_t gid, struct edera_error *err)
{
	int r = grpc_server_listen_unix(a->d.server, path, 0660, gid, err);

	if (!r)
		log_info("listening", "socket", path, NULL);
	return r;
}

static int listen_all(struct app *a, struct edera_error *err)
{
	const char *const *more;
	size_t n = conf_list(a->d.conf, "daemon.listen", &more);
	char path[PATH_CAP];
	gid_t gid = 0;
	int r = socket_group(a->d.conf, &gid, err);

	for (size_t i = 0; !r && i < a->options.n_listen; i++)
		r = listen_on(a, a->options.listen[i], gid, err);
	if (a->options.n_listen == 0 && !r) {
		r = path_format(path, err, "%s/daemon.socket", a->d.data_dir);
		if (!r && !(r = listen_on(a, path, gid, err)) && !a->options.own_instance && !(r = path_format(path, err, "%s/daemon.socket", a->d.run_dir)))
			r = listen_on(a, path, gid, err);
	}
	for (size_t i = 0; !r && i < n; i++)
		r = listen_on(a, more[i] + (text_starts(more[i], "unix://") ? 7 : text_starts(more[i], "unix:") ? 5 : 0), gid, err);
	return r;
}

static int start_state(struct app *a, struct edera_error *err)
{
	struct daemon *d = &a->d;
	char path[PATH_CAP];
	int r = path_format(path, err, "%s/protect.db", d->data_dir);

	if (r)
		return r;
	d->state = state_open(path, err);
	if (!d->state)
		return err->code;
	d->workers = worker_pool_new(&a->loop, WORKERS_MAX, err);
	if (!d->workers)
		return err->code;
	return zone_recover(d, err);
}

static int start_server(struct app *a, struct edera_error *err)
{
	int r;

	a->d.server = grpc_server_new(&a->loop, err);
	if (!a->d.server)
		return err->code;
	r = service_add_all(&a->d, err);
	return r ? r : listen_all(a, err);
}

static int start(struct app *a, struct edera_error *err)
{
	struct daemon *d = &a->d;
	int r;

	if ((r = make_dirs(d, &a->options, err)) || (r = lock_data_dir(d, err)))
		return r;
	r = conf_write_default(a->options.config, err);
	if (r && r != -EEXIST)
		return r;
	err->code = 0;
	if ((r = new_plugin_host(a, err)) || (r = load_conf(d, a->options.config, &d->conf, err)))
		return r;
	apply_log_level(&a->options, d->conf);
	log_conf_warnings(d->conf);
	r = plugin_host_start(d->plugins, d->conf, err);
	log_broken_plugins(d->plugins);
	if (r || (r = host_uuid(d, err)) || (r = start_state(a, err)))
		return r;
	return start_server(a, err);
}

static void reload(uv_signal_t *s, int signum)
{
	struct app *a = s->data;
	struct edera_error err = EDERA_ERROR_INIT;
	_buf_ struct buf restart = BUF_INIT;
	_buf_ struct buf applied = BUF_INIT;
	_buf_ struct buf plugins = BUF_INIT;
	_buf_ struct buf notes = BUF_INIT;
	struct conf *now;

	(void)signum;
	if (load_conf(&a->d, a->options.config, &now, &err)) {
		log_error("the changed configuration is not used; the old one stays in force", "error", err.msg, NULL);
		return;
	}
	conf_diff(a->d.conf, now, &restart, &applied, &plugins);
	log_conf_warnings(now);
	plugin_host_reload(a->d.plugins, now, &notes);
	conf_unref(a->d.conf);
	a->d.conf = now;
	apply_log_level(&a->options, now);
	log_info("configuration read again", "applied", applied.len ? (char *)applied.data : "nothing", "plugins", plugins.len ? (char *)plugins.data : "none", NULL);
	if (restart.len)
		log_warning("these changes need a restart of the daemon", "keys", (char *)restart.data, NULL);
	for (char *line = notes.len ? strtok((char *)notes.data, "\n") : NULL; line; line = strtok(NULL, "\n"))
		log_warning(line, NULL);
}

static void server_stopped(void *user)
{
	struct app *a = user;

	uv_stop(&a->loop);
}

static void stop(uv_signal_t *s, int signum)
{
	struct app *a = s->data;

	if (a->stopping)
		return;
	a->stopping = true;
	log_info("stopping; zones go on", "signal", signum == SIGTERM ? "SIGTERM" : "SIGINT", NULL);
	notify("STOPPING=1");
	grpc_server_shutdown(a->d.server, STOP_GRACE_MS, server_stopped, a);
}

/* VMMs detach from whoever starts them and become our children; as zombies they would count as alive for libvirt. */
static void reap(uv_signal_t *s, int signum)
{
	(void)s;
	(void)signum;
	reap_orphans();
}

static void watch_signals(struct app *a)
{
	struct { uv_signal_t *h; int num; uv_signal_cb cb; } list[] = {
		{ &a->term, SIGTERM, stop }, { &a->interrupt, SIGINT, stop }, { &a->hup, SIGHUP, reload }, { &a->child, SIGCHLD, reap },
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		uv_signal_init(&a->loop, list[i].h);
		list[i].h->data = a;
		uv_signal_start(list[i].h, list[i].cb, list[i].num);
	}
}

static void close_signals(struct app *a)
{
	uv_signal_t *list[] = { &a->term, &a->interrupt, &a->hup, &a->child };

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (!uv_is_closing((uv_handle_t *)list[i]) && list[i]->data)
			uv_close((uv_handle_t *)list[i], NULL);
}

/* In the reverse order of start; each part may be missing. */
static void tear_down(struct app *a)
{
	struct daemon *d = &a->d;

	close_signals(a);
	grpc_server_free(d->server);
	worker_pool_free(d->workers, STOP_GRACE_MS);
	workload_release_all(d);
	zone_release_all(d);
	if (d->plugins)
		plugin_host_stop(d->plugins);
	for (int i = 0; i < 100 && uv_run(&a->loop, UV_RUN_NOWAIT); i++)
		;
	plugin_host_free(d->plugins);
	state_close(d->state);
	conf_unref(d->conf);
	uv_loop_close(&a->loop);
}

/* Nobody else would ever remove it. As long as a zone has a directory in it, it stays. */
static void remove_run_dir(const struct options *o)
{
	char zones[PATH_CAP];

	if (o->own_run_dir && !path_format(zones, NULL, "%s/zones", o->run_dir) && !rmdir(zones))
		rmdir(o->run_dir);
}

static bool provided(struct plugin_host *plugins, uint32_t kind, const char *name)
{
	for (size_t i = 0; i < plugin_host_count(plugins); i++) {
		struct plugin_info info;

		plugin_host_info(plugins, i, &info);
		for (const struct edera_provide *p = info.descriptor ? info.descriptor->provides : NULL; p && p->kind; p++)
			if (p->kind == kind && !strcmp(p->name, name))
				return true;
	}
	return false;
}

/* What the configuration names must be there; whether it works on this machine only a start can tell. */
static int check_selection(struct app *a, const struct conf *conf, struct edera_error *err)
{
	const struct { const char *key; uint32_t kind; } one[] = { { "plugins.hypervisor", EDERA_KIND_HYPERVISOR }, { "plugins.image-store", EDERA_KIND_IMAGE_STORE } };
	const char *const *sources;
	size_t n = conf_list(conf, "plugins.kernel-variant-sources", &sources);

	for (size_t i = 0; i < ARRAY_SIZE(one); i++) {
		const char *name = conf_str(conf, one[i].key);

		if (strcmp(name, "auto") && !provided(a->d.plugins, one[i].kind, name))
			return err_set(err, -ENOENT, "%s: %s is '%s', but no plugin in '%s' provides it", a->options.config, one[i].key, name, conf_str(conf, "plugins.directory"));
	}
	for (size_t i = 0; i < n; i++)
		if (!provided(a->d.plugins, EDERA_KIND_VARIANT_SOURCE, sources[i]))
			return err_set(err, -ENOENT, "%s: plugins.kernel-variant-sources names '%s', but no plugin in '%s' provides it", a->options.config, sources[i], conf_str(conf, "plugins.directory"));
	return 0;
}

static int check_config(struct app *a)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_conf_ struct conf *conf = NULL;
	int r;

	strcpy(a->d.data_dir, a->options.data_dir);
	strcpy(a->d.run_dir, a->options.run_dir);
	r = path_format(a->d.cache_dir, &err, "%s/cache", a->d.data_dir);
	if (!r && !(r = new_plugin_host(a, &err)))
		r = load_conf(&a->d, a->options.config, &conf, &err);
	if (!r)
		r = check_selection(a, conf, &err);
	if (r) {
		fprintf(stderr, "protect-daemon: %s\n", err.msg);
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < conf_n_warnings(conf); i++)
		fprintf(stderr, "protect-daemon: warning: %s\n", conf_warning(conf, i));
	printf("%s: ok\n", a->options.config);
	return EXIT_SUCCESS;
}

/* libuv's handler for forks closes, in the child, the pipe it remembers by number and makes another. A library that forks twice to daemonize
 * (libvirt does, for QEMU) closes everything in between, so that by the second fork the remembered numbers may be those of its own
 * pipe. It only opens a handful; with the lowest numbers taken for good, libuv's pipe is never among them. */
static void keep_low_descriptors(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	while (fd >= 0 && fd < LOW_DESCRIPTORS)
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int main(int argc, char **argv)
{
	struct edera_error err = EDERA_ERROR_INIT;
	static struct app a;
	int r = options_parse(&a.options, argc, argv);

	if (r)
		return r > 0 ? EXIT_SUCCESS : 2;
	umask(022);
	signal(SIGPIPE, SIG_IGN);
	/* Children of a daemon that was killed come to us when they are ours to reap (VMMs). */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	keep_low_descriptors();
	uv_loop_init(&a.loop);
	a.d.loop = &a.loop;
	if (a.options.check_config)
		return check_config(&a);
	r = start(&a, &err);
	if (r) {
		log_error("cannot start", "error", err.msg, NULL);
		fprintf(stderr, "protect-daemon: %s\n", err.msg);
		tear_down(&a);
		return EXIT_FAILURE;
	}
	watch_signals(&a);
	notify("READY=1");
	log_info("ready", "version", PACKAGE_VERSION, NULL);
	uv_run(&a.loop, UV_RUN_DEFAULT);
	tear_down(&a);
	remove_run_dir(&a.options);
	log_info("stopped", NULL);
	return EXIT_SUCCESS;
}
