/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/conf_impl.h"
#include "base/cleanup.h"
#include "base/error.h"

#include <string.h>

static struct value *new_value(struct value **list, size_t *n, const char *section, const char *name, const struct spec *spec)
{
	struct value *more = reallocarray(*list, *n + 1, sizeof *more);
	_buf_ struct buf key = BUF_INIT;

	if (!more)
		return NULL;
	*list = more;
	buf_printf(&key, "%s.%s", section, name);
	more[*n] = (struct value){ .key = buf_steal(&key), .spec = *spec };
	return more[*n].key ? &more[(*n)++] : NULL;
}

static int add_value(struct conf *c, const char *section, const char *name, struct spec spec, struct edera_error *err)
{
	struct value *v = new_value(&c->values, &c->n_values, section, name, &spec);

	if (!v)
		return err_errno(err, -ENOMEM, "cannot keep the configuration");
	return value_set_default(v, err);
}

static int add_plugin(struct conf *c, const struct conf_plugin *p, struct edera_error *err)
{
	char section[160];

	snprintf(section, sizeof section, "plugin.%.120s", p->name);
	for (const struct edera_conf_key *k = p->keys; k && k->name; k++) {
		int r = add_value(c, section, k->name, spec_of_key(k), err);

		if (r)
			return err_wrap(err, "the plugin %s declares a bad default for its key %s", p->name, k->name);
	}
	return 0;
}

static bool section_reloads(const char *name)
{
	const struct section *s = schema_section(name);

	return s && s->reload;
}

struct conf *conf_new(const struct load *l, struct edera_error *err)
{
	static const struct spec image = { .type = EDERA_CONF_STRING, .reload = true, .check = schema_check_variant_image };
	struct conf *c = calloc(1, sizeof *c);
	int r = c ? 0 : err_errno(err, -ENOMEM, "cannot keep the configuration");

	if (r)
		return NULL;
	c->refs = 1;
	for (const struct def *d = schema_defs; d->name && !r; d++) {
		struct spec spec = spec_of_def(d);

		spec.reload = spec.reload || section_reloads(d->section);
		if (!l->plugins_only || !strcmp(d->section, "plugins"))
			r = add_value(c, d->section, d->name, spec, err);
	}
	for (size_t i = 0; i < l->n_plugins && !r; i++)
		r = add_plugin(c, &l->plugins[i], err);
	for (size_t i = 0; i < l->n_learned && !r; i++)
		if (l->learned[i].is_free && !new_value(&c->names, &c->n_names, l->learned[i].parent, l->learned[i].name, &image))
			r = err_errno(err, -ENOMEM, "cannot keep the configuration");
	if (!r)
		return c;
	conf_unref(c);
	return NULL;
}

static struct value *find(struct value *list, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].key, key))
			return &list[i];
	return NULL;
}

struct value *conf_find(const struct conf *c, const char *key)
{
	struct value *v = find(c->values, c->n_values, key);

	return v ? v : find(c->names, c->n_names, key);
}

struct conf *conf_ref(struct conf *c)
{
	atomic_fetch_add(&c->refs, 1);
	return c;
}

static void free_values(struct value *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		value_free(&list[i]);
	free(list);
}

void conf_unref(struct conf *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	free_values(c->values, c->n_values);
	free_values(c->names, c->n_names);
	for (size_t i = 0; i < c->n_warnings; i++)
		free(c->warnings[i]);
	free(c->warnings);
	free(c);
}

void conf_unrefp(struct conf **c) { conf_unref(*c); }

size_t conf_n_warnings(const struct conf *c) { return c->n_warnings; }

const char *conf_warning(const struct conf *c, size_t i) { return i < c->n_warnings ? c->warnings[i] : NULL; }

static const struct value *get(const struct conf *c, const char *key, uint32_t type)
{
	const struct value *v = find(c->values, c->n_values, key);

	if (!v || v->spec.type != type)
		abort(); /* the schema and its users are compiled together */
	return v;
}

const char *conf_str(const struct conf *c, const char *key) { return get(c, key, EDERA_CONF_STRING)->str; }

int64_t conf_int(const struct conf *c, const char *key) { return get(c, key, EDERA_CONF_INT)->num; }

bool conf_bool(const struct conf *c, const char *key) { return get(c, key, EDERA_CONF_BOOL)->num; }

size_t conf_list(const struct conf *c, const char *key, const char *const **ret_items)
{
	const struct value *v = get(c, key, EDERA_CONF_LIST);

	*ret_items = (const char *const *)v->items;
	return v->n_items;
}

int conf_each(const struct conf *c, const char *section, int (*cb)(void *user, const char *key, const char *value), void *user)
{
	const struct section *s = schema_section(section);
	size_t n = strlen(section);
	int r = 0;

	if (!s || !(s->flags & SECTION_FREE))
		return -ENOENT;
	for (size_t i = 0; i < c->n_names && !r; i++)
		if (!strncmp(c->names[i].key, section, n) && c->names[i].key[n] == '.')
			r = cb(user, c->names[i].key + n + 1, c->names[i].str);
	return r;
}

const char *conf_free_name(const struct conf *c, const char *section, const char *key)
{
	size_t n = strlen(section);

	for (size_t i = 0; i < c->n_names; i++)
		if (!strncmp(c->names[i].key, section, n) && c->names[i].key[n] == '.' && !strcmp(c->names[i].key + n + 1, key))
			return c->names[i].str;
	return NULL;
}

static void note(struct buf *b, const char *key)
{
	if (b)
		buf_printf(b, "%s%s", b->len ? ", " : "", key);
}

static void note_plugin(struct buf *b, const char *key)
{
	char name[160];

	if (!b)
		return;
	snprintf(name, sizeof name, "%.*s", (int)(strrchr(key, '.') - key), key);
	if (!b->len || !strstr((char *)b->data, name))
		note(b, name);
}

static bool names_equal(const struct conf *a, const struct conf *b)
{
	if (a->n_names != b->n_names)
		return false;
	for (size_t i = 0; i < a->n_names; i++)
		if (strcmp(a->names[i].key, b->names[i].key) || strcmp(a->names[i].str, b->names[i].str))
			return false;
	return true;
}

void conf_diff(const struct conf *old, const struct conf *now, struct buf *restart, struct buf *applied, struct buf *plugins)
{
	for (size_t i = 0; i < now->n_values; i++) {
		const struct value *v = &now->values[i], *before = find(old->values, old->n_values, v->key);

		if (!before || value_equal(v, before))
			continue;
		if (!strncmp(v->key, "plugin.", 7))
			note_plugin(plugins, v->key);
		else
			note(v->spec.reload ? applied : restart, v->key);
	}
	if (!names_equal(old, now))
		note(applied, "zone.kernel-variants");
}
