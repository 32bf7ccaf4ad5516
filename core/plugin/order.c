/* SPDX-License-Identifier: Apache-2.0 */
/* Dependency order. Hard needs decide who can run at all; soft ones only move their target earlier where that closes no circle. */
#include "plugin/host_impl.h"
#include "base/cleanup.h"

#include <string.h>

enum { WHITE, GREY, BLACK };

static struct plugin *target(struct plugin *p, const struct edera_require *n)
{
	for (size_t i = 0; i < p->host->n_plugins; i++) {
		struct plugin *q = p->host->plugins[i];

		if (q != p && plugin_get_state(q) == PLUGIN_CANDIDATE && plugin_provides(q, n->kind, n->name))
			return q;
	}
	return NULL;
}

static void describe_need(const struct edera_require *n, struct buf *b)
{
	if (n->name)
		buf_printf(b, "%s '%s'", plugin_kind_name(n->kind), n->name);
	else
		buf_printf(b, "some %s", plugin_kind_name(n->kind));
}

/* Why there is no candidate for a need. */
static void set_unmet(struct plugin *p, const struct edera_require *n)
{
	struct plugin *q = plugin_host_find(p->host, n->kind, n->name);
	_buf_ struct buf b = BUF_INIT;

	buf_puts(&b, "it needs ");
	describe_need(n, &b);
	if (q == p)
		buf_puts(&b, ", which only it provides itself");
	else if (q)
		buf_printf(&b, ", but the plugin %s is %s: %s", q->name, plugin_state_name(plugin_get_state(q)), q->reason);
	else
		buf_puts(&b, ", which no plugin provides");
	plugin_set_state(p, PLUGIN_ERROR, b.failed ? "it needs something that is not there" : (char *)b.data);
}

/* Each plugin that fails may leave others unmet: until nothing changes. */
static void fail_unmet(struct plugin_host *h)
{
	bool changed;

	do {
		changed = false;
		for (size_t i = 0; i < h->n_plugins; i++) {
			struct plugin *p = h->plugins[i];

			for (const struct edera_require *n = p->desc.needs; n && n->kind && plugin_get_state(p) == PLUGIN_CANDIDATE; n++)
				if (!n->soft && !target(p, n)) {
					set_unmet(p, n);
					changed = true;
				}
		}
	} while (changed);
}

static void set_cycle(struct plugin **path, size_t from, size_t n)
{
	_buf_ struct buf b = BUF_INIT;

	buf_puts(&b, "plugins need each other in a circle: ");
	for (size_t i = from; i < n; i++)
		buf_printf(&b, "%s -> ", path[i]->name);
	buf_puts(&b, path[from]->name);
	for (size_t i = from; i < n; i++)
		plugin_set_state(path[i], PLUGIN_ERROR, b.failed ? "plugins need each other in a circle" : (char *)b.data);
}

/* Depth first along hard needs; a grey one met again closes a cycle. */
static void find_cycles(struct plugin *p, struct plugin **path, size_t depth)
{
	p->mark = GREY;
	path[depth] = p;
	for (const struct edera_require *n = p->desc.needs; n && n->kind && plugin_get_state(p) == PLUGIN_CANDIDATE; n++) {
		struct plugin *q = n->soft ? NULL : target(p, n);

		if (q && q->mark == WHITE)
			find_cycles(q, path, depth + 1);
		else if (q && q->mark == GREY)
			for (size_t i = 0; i <= depth; i++)
				if (path[i] == q) {
					set_cycle(path, i, depth + 1);
					break;
				}
	}
	p->mark = BLACK;
}

static bool needs_grey(struct plugin *p)
{
	if (p->mark == GREY)
		return true;
	for (const struct edera_require *n = p->desc.needs; n && n->kind; n++) {
		struct plugin *q = n->soft ? NULL : target(p, n);

		if (q && needs_grey(q))
			return true;
	}
	return false;
}

static void visit(struct plugin *p)
{
	if (p->mark != WHITE)
		return;
	p->mark = GREY;
	for (const struct edera_require *n = p->desc.needs; n && n->kind; n++) {
		struct plugin *q = target(p, n);

		if (q && (!n->soft || !needs_grey(q)))
			visit(q);
	}
	p->mark = BLACK;
	p->host->order[p->host->n_order++] = p;
}

int order_plugins(struct plugin_host *h)
{
	_free_ struct plugin **path = calloc(h->n_plugins + 1, sizeof *path);

	free(h->order);
	h->order = calloc(h->n_plugins + 1, sizeof *h->order);
	h->n_order = 0;
	if (!path || !h->order)
		return -ENOMEM;
	fail_unmet(h);
	for (size_t i = 0; i < h->n_plugins; i++)
		h->plugins[i]->mark = WHITE;
	for (size_t i = 0; i < h->n_plugins; i++)
		if (h->plugins[i]->mark == WHITE && plugin_get_state(h->plugins[i]) == PLUGIN_CANDIDATE)
			find_cycles(h->plugins[i], path, 0);
	fail_unmet(h);
	for (size_t i = 0; i < h->n_plugins; i++)
		h->plugins[i]->mark = WHITE;
	for (size_t i = 0; i < h->n_plugins; i++)
		if (plugin_get_state(h->plugins[i]) == PLUGIN_CANDIDATE)
			visit(h->plugins[i]);
	return 0;
}
