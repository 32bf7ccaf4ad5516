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

int variants_collect(const struct plugin_host *plugins, const struct edera_call *call, uint32_t flags, struct variants *ret, struct edera_error *err)
{
	struct variants list = { 0 };
	const struct plugin_provider *p;

	for (size_t i = 0; (p = plugin_host_variant_source(plugins, i)); i++) {
		struct edera_error why = EDERA_ERROR_INIT;
		struct collect c = { &list, p->name };
		int r = PLUGIN_OP(p, struct edera_variant_source_ops, list)(p->inst, call, flags, add, &c, &why);

		if (r == -ECANCELED || r == -ENOMEM) {
			variants_free(&list);
			return err_errno(err, r, "cannot list kernel variants");
		}
		if (r < 0)
			log_warning("a kernel-variant source failed", "source", p->name, "error", why.msg, NULL);
	}
	*ret = list;
	return 0;
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

int variants_reference(const struct plugin_host *plugins, const struct edera_call *call, const char *name, char **ret, struct edera_error *err)
{
	_buf_ struct buf known = BUF_INIT;
	struct variants list;
	char *ref = NULL;
	int r = variants_collect(plugins, call, 0, &list, err);

	if (r)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		if (!strcmp(list.items[i].name, name)) {
			ref = pinned(&list.items[i]);
			break;
		}
		buf_printf(&known, "%s%s", known.len ? ", " : "", list.items[i].name);
	}
	variants_free(&list);
	if (ref) {
		*ret = ref;
		return 0;
	}
	return err_set(err, -ENOENT, "there is no kernel variant '%.63s'; %s%s%s", name, known.len ? "there are: " : "none is defined: add one to [zone.kernel-variants] in daemon.toml",
		       known.len ? (char *)known.data : "", known.len ? " (`protect image list-kernel-variants`)" : "");
}
