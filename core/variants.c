/* SPDX-License-Identifier: Apache-2.0 */
#include "variants.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define VARIANTS_MAX 4096

struct collect {
	struct variants *list;
	const char *source;
};

static char *copy(const char *s)
{
	char *p = strdup(s ? s : "");

	if (!p)
		abort();
	return p;
}

static int add(void *user, const struct edera_variant *v)
{
	struct collect *c = user;
	struct variant *items;

	for (size_t i = 0; i < c->list->n; i++)
		if (!strcmp(c->list->items[i].name, v->name))
			return 0;
	if (c->list->n >= VARIANTS_MAX)
		return -E2BIG;
	items = reallocarray(c->list->items, c->list->n + 1, sizeof *items);
	if (!items)
		return -ENOMEM;
	c->list->items = items;
	items[c->list->n++] = (struct variant){ copy(v->name), copy(v->image), copy(v->digest), copy(v->version), c->source };
	return 0;
}

/* One source's variants, behind those of the sources before it. A source that fails is left out, and the log says so. */
static int collect_from(const struct plugin_provider *p, const struct edera_call *call, uint32_t flags, struct variants *list, struct edera_error *err)
{
	struct edera_error why = EDERA_ERROR_INIT;
	struct collect c = { list, p->name };
	int r = PLUGIN_OP(p, struct edera_variant_source_ops, list)(p->inst, call, flags, add, &c, &why);

	if (r == -ECANCELED || r == -ENOMEM)
		return err_errno(err, r, "cannot list kernel variants");
	if (r < 0)
		log_warning("a kernel-variant source failed", "source", p->name, "error", why.msg, NULL);
	return 0;
}

int variants_collect(const struct plugin_host *plugins, const struct edera_call *call, uint32_t flags, struct variants *ret, struct edera_error *err)
{
	struct variants list = { 0 };
	const struct plugin_provider *p;
	int r = 0;

	for (size_t i = 0; (p = plugin_host_variant_source(plugins, i)) && !r; i++)
		r = collect_from(p, call, flags, &list, err);
	if (r)
		variants_free(&list);
	else
		*ret = list;
	return r;
}

void variants_free(struct variants *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->items[i].name);
		free(l->items[i].image);
		free(l->items[i].digest);
		free(l->items[i].version);
	}
	free(l->items);
	*l = (struct variants){ 0 };
}

/* "repo:tag" or "repo@digest" pinned: the digest decides. */
static char *pinned(const struct variant *v)
{
	struct buf b = BUF_INIT;

	buf_puts(&b, v->image);
	if (*v->digest && !strchr(v->image, '@'))
		buf_printf(&b, "@%s", v->digest);
	return buf_steal(&b);
}

static const struct variant *find(const struct variants *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->items[i].name, name))
			return &list->items[i];
	return NULL;
}

static int unknown_variant(const struct variants *list, const char *name, struct edera_error *err)
{
	_buf_ struct buf known = BUF_INIT;

	for (size_t i = 0; i < list->n; i++)
		buf_printf(&known, "%s%s", i ? ", " : "", list->items[i].name);
	return err_set(err, -ENOENT, "there is no kernel variant '%.63s'; %s%s%s", name, known.len ? "there are: " : "none is defined: add one to [zone.kernel-variants] in daemon.toml",
		       known.len ? (char *)known.data : "", known.len ? " (`protect image list-kernel-variants`)" : "");
}

/* Sources are asked in order of precedence and no further than needed: one that is slow delays no launch that an earlier one can serve. */
int variants_reference(const struct plugin_host *plugins, const struct edera_call *call, const char *name, char **ret, struct edera_error *err)
{
	const struct variant *found = NULL;
	const struct plugin_provider *p;
	struct variants list = { 0 };
	char *ref = NULL;
	int r = 0;

	for (size_t i = 0; (p = plugin_host_variant_source(plugins, i)) && !r && !found; i++) {
		r = collect_from(p, call, 0, &list, err);
		found = r ? NULL : find(&list, name);
	}
	if (!r && !found)
		r = unknown_variant(&list, name, err);
	if (found && !(ref = pinned(found)))
		r = err_errno(err, -ENOMEM, "cannot resolve the kernel variant '%.63s'", name);
	variants_free(&list);
	if (!r)
		*ret = ref;
	return r;
}
