/* SPDX-License-Identifier: Apache-2.0 */
/* One plugin's life: probe, init, start, reload, stop, fini. Registration is the host's, so a failure leaves nothing of it. */
#include "plugin/host_impl.h"
#include "base/cleanup.h"

#include <string.h>

/* A failing plugin may forget its sentence. */
static void say(struct plugin *p, enum plugin_state state, const char *what, int r, const struct edera_error *err)
{
	char reason[600];

	if (err->msg[0])
		snprintf(reason, sizeof reason, "%s%.*s", what, (int)sizeof err->msg - 1, err->msg);
	else
		snprintf(reason, sizeof reason, "%s%s", what, strerror(r < 0 ? -r : r));
	plugin_set_state(p, state, reason);
}

static int make_section(struct plugin *p)
{
	const struct conf_plugin key = { p->desc.name, p->desc.conf };

	if (p->conf)
		return 0;
	p->conf = conf_plugin_section(p->host->conf, &key);
	if (p->conf)
		return 0;
	plugin_set_state(p, PLUGIN_ERROR, "there was no memory for its configuration");
	return -ENOMEM;
}

int plugin_probe(struct plugin *p)
{
	struct edera_error err = EDERA_ERROR_INIT;
	int r = make_section(p);

	if (r)
		return r;
	r = p->desc.probe ? p->desc.probe(&p->services, p->conf, &err) : 0;
	if (r == -ENODEV || r == -ENOTSUP)
		say(p, PLUGIN_SKIPPED, "", r, &err);
	else if (r)
		say(p, PLUGIN_ERROR, "its probe failed: ", r, &err);
	if (r)
		watch_remove_all(p->host->watches, p);
	return r;
}

static struct plugin *need_of(struct plugin *p, const struct edera_require *n)
{
	for (size_t i = 0; i < p->host->n_order; i++) {
		struct plugin *q = p->host->order[i];

		if (q != p && plugin_provides(q, n->kind, n->name))
			return q;
	}
	return NULL;
}

static int bring_up_needs(struct plugin *p)
{
	for (const struct edera_require *n = p->desc.needs; n && n->kind; n++) {
		struct plugin *q = n->soft ? NULL : need_of(p, n);
		char reason[700];

		if (!q || !plugin_bring_up(q))
			continue;
		snprintf(reason, sizeof reason, "it needs the plugin %s, which is %s: %s", q->name, plugin_state_name(plugin_get_state(q)), q->reason);
		plugin_set_state(p, PLUGIN_ERROR, reason);
		return -ENOENT;
	}
	return 0;
}

static int init_and_start(struct plugin *p)
{
	struct edera_error err = EDERA_ERROR_INIT;
	int r = p->desc.init(&p->services, p->conf, &p->inst, &err);

	if (r) {
		say(p, PLUGIN_ERROR, "its init failed: ", r, &err);
		watch_remove_all(p->host->watches, p);
		p->inst = NULL;
		return r;
	}
	r = p->desc.start ? p->desc.start(p->inst, &err) : 0;
	if (!r)
		return 0;
	say(p, PLUGIN_ERROR, "its start failed: ", r, &err);
	if (p->desc.fini)
		p->desc.fini(p->inst);
	watch_remove_all(p->host->watches, p);
	p->inst = NULL;
	return r;
}

int plugin_bring_up(struct plugin *p)
{
	int r;

	if (plugin_get_state(p) != PLUGIN_CANDIDATE)
		return plugin_get_state(p) == PLUGIN_LOADED ? 0 : -ENOENT;
	r = bring_up_needs(p);
	if (!r)
		r = plugin_probe(p);
	if (!r)
		r = init_and_start(p);
	if (r)
		return r;
	plugin_set_state(p, PLUGIN_LOADED, "");
	p->host->running[p->host->n_running++] = p;
	return 0;
}

static void keep_old(struct plugin *p, struct edera_conf *old)
{
	struct edera_conf **more = reallocarray(p->old_conf, p->n_old_conf + 1, sizeof *more);

	if (!more)
		return; /* leaked on purpose: the plugin may still read it */
	p->old_conf = more;
	more[p->n_old_conf++] = old;
}

static bool section_changed(const struct buf *changed, const char *name)
{
	char want[80];

	snprintf(want, sizeof want, ", plugin.%s,", name);
	return strstr((const char *)changed->data, want) != NULL;
}

static void reload_one(struct plugin *p, struct conf *now, struct buf *notes)
{
	const struct conf_plugin key = { p->desc.name, p->desc.conf };
	struct edera_error err = EDERA_ERROR_INIT;
	struct edera_conf *section;
	int r;

	if (!p->desc.reload) {
		buf_printf(notes, "the changed section plugin.%s takes effect after a restart\n", p->name);
		return;
	}
	section = conf_plugin_section(now, &key);
	r = section ? p->desc.reload(p->inst, section, &err) : -ENOMEM;
	if (r) {
		buf_printf(notes, "the plugin %s keeps its old configuration: %s\n", p->name, err.msg[0] ? err.msg : strerror(-r));
		edera_conf_free(section);
		return;
	}
	keep_old(p, p->conf);
	p->conf = section;
}

void plugin_host_reload(struct plugin_host *h, struct conf *now, struct buf *notes)
{
	_buf_ struct buf list = BUF_INIT, changed = BUF_INIT;
	struct conf *old = h->conf;

	conf_diff(old, now, NULL, NULL, &list);
	buf_printf(&changed, ", %s,", list.data ? (char *)list.data : "");
	pthread_mutex_lock(&h->lock);
	h->conf = conf_ref(now);
	pthread_mutex_unlock(&h->lock);
	for (size_t i = 0; i < h->n_running && !changed.failed; i++)
		if (section_changed(&changed, h->running[i]->name))
			reload_one(h->running[i], now, notes);
	conf_unref(old);
}

void plugin_host_stop(struct plugin_host *h)
{
	for (size_t i = h->n_running; i-- > 0;)
		if (h->running[i]->desc.stop)
			h->running[i]->desc.stop(h->running[i]->inst);
	for (size_t i = h->n_running; i-- > 0;) {
		if (h->running[i]->desc.fini)
			h->running[i]->desc.fini(h->running[i]->inst);
		watch_remove_all(h->watches, h->running[i]);
	}
	h->n_running = 0;
	watches_close(h->watches);
}
