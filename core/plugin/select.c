/* SPDX-License-Identifier: Apache-2.0 */
/* Which plugins do the work, by [plugins]. What is named and cannot be used is an error with its reason, never a silent fallback. */
#include "plugin/host_impl.h"
#include "base/cleanup.h"

#include <string.h>

/* Order of "auto"; then whatever else there is, by name. */
static const char *const preferred[] = { "kvm", "xen", "cloud-hypervisor" };

static void describe(struct plugin *p, struct buf *b)
{
	buf_printf(b, "the plugin %s is %s%s%s", p->name, plugin_state_name(plugin_get_state(p)), p->reason[0] ? ": " : "", p->reason);
}

static void list_provided(struct plugin_host *h, uint32_t kind, struct buf *b)
{
	const char *sep = "";

	for (size_t i = 0; i < h->n_plugins; i++)
		for (const struct edera_provide *v = h->plugins[i]->inspected ? h->plugins[i]->desc.provides : NULL; v && v->kind; v++)
			if (v->kind == kind) {
				buf_printf(b, "%s%s", sep, v->name);
				sep = ", ";
			}
	buf_puts(b, *sep ? "" : "none");
}

/* A file that is not what its name promises: "kvm" is wanted and kvm.so was refused. */
static struct plugin *refused_file(struct plugin_host *h, const char *name)
{
	for (size_t i = 0; i < h->n_plugins; i++)
		if (!h->plugins[i]->inspected && !strcmp(h->plugins[i]->name, name))
			return h->plugins[i];
	return NULL;
}

static int unusable(struct plugin_host *h, uint32_t kind, const char *key, const char *name, struct edera_error *err)
{
	struct plugin *p = plugin_host_find(h, kind, name);
	_buf_ struct buf b = BUF_INIT;

	if (!p)
		p = refused_file(h, name);
	if (p) {
		describe(p, &b);
	} else {
		buf_puts(&b, "no plugin provides it; there are: ");
		list_provided(h, kind, &b);
	}
	return err_set(err, -ENOENT, "the %s '%s', named by plugins.%s, cannot be used: %s", plugin_kind_name(kind), name, key,
		       b.failed ? "out of memory" : (char *)b.data);
}

static void fill(struct plugin_provider *dst, struct plugin *p, const struct edera_provide *v)
{
	*dst = (struct plugin_provider){ .plugin = p->name, .name = v->name, .kind = v->kind, .caps = v->caps, .ops = v->ops, .inst = p->inst };
	p->selected = true;
}

static int use(struct plugin_host *h, uint32_t kind, const char *key, const char *name, struct plugin_provider *dst, struct edera_error *err)
{
	struct plugin *p = plugin_host_find(h, kind, name);

	if (!p || plugin_bring_up(p))
		return unusable(h, kind, key, name, err);
	fill(dst, p, plugin_provides(p, kind, name));
	return 0;
}

static bool try_hypervisor(struct plugin_host *h, struct plugin *p, const char *name)
{
	const struct edera_provide *v = p && p->inspected ? plugin_provides(p, EDERA_KIND_HYPERVISOR, name) : NULL;

	/* A backend without a kernel of its own isolates nothing: it must be asked for by name. */
	if (!v || !(v->caps & EDERA_HV_OWN_KERNEL) || plugin_bring_up(p))
		return false;
	fill(&h->hypervisor, p, v);
	return true;
}

static int use_any_hypervisor(struct plugin_host *h, struct edera_error *err)
{
	_buf_ struct buf b = BUF_INIT;
	const char *sep = "";

	for (size_t i = 0; i < ARRAY_SIZE(preferred); i++)
		if (try_hypervisor(h, plugin_host_find(h, EDERA_KIND_HYPERVISOR, preferred[i]), preferred[i]))
			return 0;
	for (size_t i = 0; i < h->n_plugins; i++)
		if (try_hypervisor(h, h->plugins[i], NULL))
			return 0;
	for (size_t i = 0; i < h->n_plugins; i++) {
		struct plugin *p = h->plugins[i];

		if (p->inspected && !plugin_provides(p, EDERA_KIND_HYPERVISOR, NULL))
			continue;
		buf_puts(&b, sep);
		describe(p, &b);
		sep = "; ";
	}
	return err_set(err, -ENODEV, "no hypervisor can be used%s%s", b.len && !b.failed ? ": " : "; is the directory plugins.directory right?",
		       b.len && !b.failed ? (char *)b.data : "");
}

/* Those that were not asked for any service: say so. Sources run even when not asked, so that a look at them shows whether they could. */
static void settle_rest(struct plugin_host *h)
{
	for (size_t i = 0; i < h->n_order; i++) {
		struct plugin *p = h->order[i];
		const struct edera_provide *v = p->desc.provides;
		char reason[300];

		if (plugin_get_state(p) == PLUGIN_CANDIDATE && (!v || !v->kind || plugin_provides(p, EDERA_KIND_VARIANT_SOURCE, NULL)))
			plugin_bring_up(p);
		if (plugin_get_state(p) == PLUGIN_CANDIDATE && !plugin_probe(p)) {
			bool store = v->kind == EDERA_KIND_IMAGE_STORE;

			snprintf(reason, sizeof reason, "the configuration uses the %s '%s'", plugin_kind_name(v->kind),
				 store ? h->image_store.name : h->hypervisor.name);
			plugin_set_state(p, PLUGIN_DISABLED, reason);
		} else if (plugin_get_state(p) == PLUGIN_LOADED && !p->selected && plugin_provides(p, EDERA_KIND_VARIANT_SOURCE, NULL)) {
			plugin_set_state(p, PLUGIN_LOADED, "not asked: it is not in plugins.kernel-variant-sources");
		}
	}
}

int select_and_start(struct plugin_host *h, struct edera_error *err)
{
	const char *hypervisor = conf_str(h->conf, "plugins.hypervisor"), *const *sources;
	size_t n = conf_list(h->conf, "plugins.kernel-variant-sources", &sources);
	int r;

	if (n > MAX_SOURCES)
		return err_set(err, -E2BIG, "plugins.kernel-variant-sources names more than %d sources", MAX_SOURCES);
	if (!strcmp(hypervisor, "auto"))
		r = use_any_hypervisor(h, err);
	else
		r = use(h, EDERA_KIND_HYPERVISOR, "hypervisor", hypervisor, &h->hypervisor, err);
	if (!r)
		r = use(h, EDERA_KIND_IMAGE_STORE, "image-store", conf_str(h->conf, "plugins.image-store"), &h->image_store, err);
	for (size_t i = 0; i < n && !r; i++) {
		r = use(h, EDERA_KIND_VARIANT_SOURCE, "kernel-variant-sources", sources[i], &h->sources[h->n_sources], err);
		h->n_sources += !r;
	}
	if (!r)
		settle_rest(h);
	return r;
}
