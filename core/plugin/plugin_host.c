/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/host_impl.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

static const char *const state_names[] = {
	[PLUGIN_CANDIDATE] = "candidate", [PLUGIN_LOADED] = "loaded", [PLUGIN_SKIPPED] = "skipped",
	[PLUGIN_ERROR] = "error", [PLUGIN_DISABLED] = "disabled", [PLUGIN_DEGRADED] = "degraded",
};

const char *plugin_state_name(enum plugin_state s) { return state_names[s]; }

/* Keeps a copy of a text for as long as the host lives. Locked by the caller, or before anybody else looks. */
static const char *keep_text(struct plugin_host *h, const char *text)
{
	char *copy = *text ? strdup(text) : NULL, **more = copy ? reallocarray(h->texts, h->n_texts + 1, sizeof *more) : NULL;

	if (!more) {
		free(copy);
		return *text ? "(no memory for the reason)" : "";
	}
	h->texts = more;
	return more[h->n_texts++] = copy;
}

void plugin_set_state(struct plugin *p, enum plugin_state state, const char *reason)
{
	pthread_mutex_lock(&p->host->lock);
	p->state = state;
	p->reason = keep_text(p->host, reason);
	pthread_mutex_unlock(&p->host->lock);
}

enum plugin_state plugin_get_state(struct plugin *p)
{
	enum plugin_state s;

	pthread_mutex_lock(&p->host->lock);
	s = p->state;
	pthread_mutex_unlock(&p->host->lock);
	return s;
}

const struct edera_provide *plugin_provides(const struct plugin *p, uint32_t kind, const char *name)
{
	for (const struct edera_provide *v = p->inspected ? p->desc.provides : NULL; v && v->kind; v++)
		if (v->kind == kind && (!name || !strcmp(v->name, name)))
			return v;
	return NULL;
}

struct plugin *plugin_host_find(struct plugin_host *h, uint32_t kind, const char *name)
{
	for (size_t i = 0; i < h->n_plugins; i++)
		if (plugin_provides(h->plugins[i], kind, name))
			return h->plugins[i];
	return NULL;
}

int plugin_host_new(uv_loop_t *loop, const struct plugin_host_options *o, struct plugin_host **ret, struct edera_error *err)
{
	struct plugin_host *h = calloc(1, sizeof *h);
	int r;

	if (!h)
		return err_errno(err, -ENOMEM, "cannot start the plugin host");
	pthread_mutex_init(&h->lock, NULL);
	h->options = *o;
	h->options.data_dir = keep_text(h, o->data_dir);
	h->options.run_dir = keep_text(h, o->run_dir);
	h->options.cache_dir = keep_text(h, o->cache_dir);
	r = watches_new(loop, &h->watches, err);
	if (r) {
		plugin_host_free(h);
		return r;
	}
	*ret = h;
	return 0;
}

static void plugin_free(struct plugin *p)
{
	free(p->name);
	free(p->path);
	edera_conf_free(p->conf);
	for (size_t i = 0; i < p->n_old_conf; i++)
		edera_conf_free(p->old_conf[i]);
	free(p->old_conf);
	free(p);
}

void plugin_host_free(struct plugin_host *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n_plugins; i++)
		plugin_free(h->plugins[i]);
	for (size_t i = 0; i < h->n_texts; i++)
		free(h->texts[i]);
	free(h->texts);
	free(h->plugins);
	free(h->conf_plugins);
	free(h->order);
	free(h->running);
	conf_unref(h->conf);
	watches_free(h->watches);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* An earlier plugin has the name, or provides the same. */
static int check_duplicates(struct plugin_host *h, const struct edera_plugin *d, struct edera_error *err)
{
	for (size_t i = 0; i < h->n_plugins; i++)
		if (h->plugins[i]->inspected && !strcmp(h->plugins[i]->name, d->name))
			return err_set(err, -EEXIST, "the name '%s' is taken by '%s'", d->name, h->plugins[i]->path);
	for (const struct edera_provide *v = d->provides; v && v->kind; v++) {
		struct plugin *q = plugin_host_find(h, v->kind, v->name);

		if (q)
			return err_set(err, -EEXIST, "the plugin %s provides the %s '%s' already", q->name, plugin_kind_name(v->kind), v->name);
	}
	return 0;
}

static bool is_disabled(const struct conf *c, const char *name)
{
	const char *const *items;
	size_t n = conf_list(c, "plugins.disabled", &items);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(items[i], name))
			return true;
	return false;
}

static int inspect(struct plugin *p, struct edera_error *err)
{
	_close_ int fd = -1;
	int r = plugin_check_file(p->path, err);

	if (r)
		return r;
	fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &p->st) < 0)
		return err_errno(err, -errno, "cannot open '%s'", p->path);
	r = plugin_check_elf(fd, p->path, err);
	if (!r)
		r = plugin_open(p->path, p->path, &p->desc, err);
	if (!r)
		r = plugin_check_descriptor(&p->desc, err);
	if (!r)
		r = check_duplicates(p->host, &p->desc, err);
	return r;
}

static int add_file(struct plugin_host *h, const struct conf *c, const char *dir, const char *file, struct edera_error *err)
{
	struct plugin **more = reallocarray(h->plugins, h->n_plugins + 1, sizeof *more), *p = calloc(1, sizeof *p);
	struct edera_error why = EDERA_ERROR_INIT;
	char *name = NULL;

	h->plugins = more ? more : h->plugins;
	if (!more || !p || asprintf(&p->path, "%s/%s", dir, file) < 0 || !(p->name = strndup(file, strlen(file) - 3))) {
		free(p);
		return err_errno(err, -ENOMEM, "cannot inspect the plugins in '%s'", dir);
	}
	p->host = h;
	p->reason = "";
	services_init(p);
	if (is_disabled(c, p->name)) {
		plugin_set_state(p, PLUGIN_DISABLED, "named by plugins.disabled; the file was not loaded");
	} else if (inspect(p, &why)) {
		memset(&p->desc, 0, sizeof p->desc);
		plugin_set_state(p, PLUGIN_ERROR, why.msg);
	} else if ((name = strdup(p->desc.name))) {
		free(p->name);
		p->name = name;
		p->inspected = true;
		if (is_disabled(c, p->name))
			plugin_set_state(p, PLUGIN_DISABLED, "named by plugins.disabled");
	} else {
		plugin_set_state(p, PLUGIN_ERROR, "there was no memory for its name");
	}
	more[h->n_plugins++] = p;
	return 0;
}

static int is_candidate(const struct dirent *e) { return e->d_name[0] != '.' && strlen(e->d_name) > 3 && text_ends(e->d_name, ".so"); }

static int fill_conf_plugins(struct plugin_host *h, struct edera_error *err)
{
	h->conf_plugins = calloc(h->n_plugins + 1, sizeof *h->conf_plugins);
	h->running = calloc(h->n_plugins + 1, sizeof *h->running);
	if (!h->conf_plugins || !h->running)
		return err_errno(err, -ENOMEM, "cannot start the plugin host");
	for (size_t i = 0; i < h->n_plugins; i++)
		if (h->plugins[i]->inspected)
			h->conf_plugins[h->n_conf_plugins++] = (struct conf_plugin){ h->plugins[i]->name, h->plugins[i]->desc.conf };
	return 0;
}

int plugin_host_load(struct plugin_host *h, const struct conf *c, struct edera_error *err)
{
	const char *dir = conf_str(c, "plugins.directory");
	struct dirent **files;
	int n, r = path_check_trusted(dir, err);

	if (r)
		return err_wrap(err, "cannot use plugins.directory");
	n = scandir(dir, &files, is_candidate, alphasort);
	if (n < 0)
		return err_errno(err, -errno, "cannot use plugins.directory: cannot read '%s'", dir);
	for (int i = 0; i < n; i++) {
		if (!r)
			r = add_file(h, c, dir, files[i]->d_name, err);
		free(files[i]);
	}
	free(files);
	return r ? r : fill_conf_plugins(h, err);
}

struct conf *plugin_host_conf(const struct plugin_host *host)
{
	struct plugin_host *h = (struct plugin_host *)host; /* for its lock */
	struct conf *c;

	pthread_mutex_lock(&h->lock);
	c = h->conf ? conf_ref(h->conf) : NULL;
	pthread_mutex_unlock(&h->lock);
	return c;
}

const struct conf_plugin *plugin_host_conf_plugins(const struct plugin_host *h, size_t *ret_n)
{
	*ret_n = h->n_conf_plugins;
	return h->conf_plugins;
}

int plugin_host_start(struct plugin_host *h, struct conf *c, struct edera_error *err)
{
	pthread_mutex_lock(&h->lock);
	conf_unref(h->conf);
	h->conf = conf_ref(c);
	pthread_mutex_unlock(&h->lock);
	if (order_plugins(h))
		return err_errno(err, -ENOMEM, "cannot start the plugins");
	return select_and_start(h, err);
}

const struct plugin_provider *plugin_host_hypervisor(const struct plugin_host *h) { return h->hypervisor.ops ? &h->hypervisor : NULL; }

const struct plugin_provider *plugin_host_image_store(const struct plugin_host *h) { return h->image_store.ops ? &h->image_store : NULL; }

const struct plugin_provider *plugin_host_variant_source(const struct plugin_host *h, size_t i) { return i < h->n_sources ? &h->sources[i] : NULL; }

size_t plugin_host_count(const struct plugin_host *h) { return h->n_plugins; }

static bool was_replaced(const struct plugin *p)
{
	struct stat now;

	if (!p->st.st_ino)
		return false; /* was never opened */
	return stat(p->path, &now) < 0 || now.st_ino != p->st.st_ino || now.st_dev != p->st.st_dev || now.st_size != p->st.st_size ||
	       now.st_mtim.tv_sec != p->st.st_mtim.tv_sec || now.st_mtim.tv_nsec != p->st.st_mtim.tv_nsec;
}

void plugin_host_info(struct plugin_host *h, size_t i, struct plugin_info *ret)
{
	struct plugin *p = h->plugins[i];

	*ret = (struct plugin_info){ .name = p->name, .path = p->path, .version = "", .summary = "", .license = "", .replaced = was_replaced(p),
				     .selected = p->selected, .conf = p->conf };
	if (p->inspected) {
		ret->version = p->desc.version;
		ret->summary = p->desc.summary;
		ret->license = p->desc.license;
		ret->abi_major = p->desc.abi_major;
		ret->abi_minor = p->desc.abi_minor;
		ret->descriptor = &p->desc;
	}
	pthread_mutex_lock(&h->lock);
	ret->state = p->state;
	ret->reason = p->reason;
	pthread_mutex_unlock(&h->lock);
}

void plugin_host_degrade(struct plugin_host *h, const char *plugin, const char *reason)
{
	for (size_t i = 0; i < h->n_plugins; i++)
		if (!strcmp(h->plugins[i]->name, plugin) && h->plugins[i]->inspected && plugin_get_state(h->plugins[i]) == PLUGIN_LOADED)
			plugin_set_state(h->plugins[i], PLUGIN_DEGRADED, reason);
}
