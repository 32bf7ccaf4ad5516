/* SPDX-License-Identifier: Apache-2.0 */
/* The schema as libconfuse's option tables. Both syntaxes set options through them: daemon.conf by cfg_parse_buf, daemon.toml value by
 * value with cfg_setopt; either way each value passes through on_value. libconfuse knows no free names and no pointer for callbacks, so
 * tables are made anew with the names that an earlier try found, and the reading in progress is a thread's variable. */
#include "conf/conf_impl.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

static _Thread_local struct load *loading;

/* Finds the dotted path of an option or a section by walking the tree; libconfuse keeps no way up. */
static bool path_of(cfg_t *sec, const cfg_opt_t *opt, const cfg_t *wanted, struct buf *path)
{
	for (unsigned i = 0; i < cfg_num(sec); i++) {
		cfg_opt_t *o = cfg_getnopt(sec, i);
		size_t len = path->len;

		buf_printf(path, "%s%s", len ? "." : "", o->name);
		if (o == opt)
			return true;
		if (o->type == CFGT_SEC) {
			cfg_t *sub = cfg_opt_getnsec(o, 0);

			if (sub == wanted || path_of(sub, opt, wanted, path))
				return true;
		}
		path->len = len;
		path->data[len] = 0;
	}
	return false;
}

int options_path_of_section(cfg_t *root, const cfg_t *wanted, struct buf *ret)
{
	if (wanted != root)
		path_of(root, NULL, wanted, ret);
	return buf_reserve(ret, 0);
}

static int set_value(struct load *l, struct value *v, bool first_item, int line, const char *text)
{
	struct edera_error why = EDERA_ERROR_INIT;
	int r;

	if (v->line && (v->spec.type != EDERA_CONF_LIST || first_item))
		return load_fail(l, -EINVAL, line, "%s: set a second time, first in line %d", v->key, v->line);
	if (v->spec.type == EDERA_CONF_LIST && first_item)
		value_clear_items(v);
	r = v->spec.type == EDERA_CONF_LIST ? value_add_item(v, text, &why) : value_set(v, text, &why);
	if (r && v->spec.secret)
		return load_fail(l, r, line, "%s: %s", v->key, why.msg);
	if (r)
		return load_fail(l, r, line, "%s = \"%.100s\": %s", v->key, text, why.msg);
	if (v->spec.unsupported && conf_warn(l, line, "%s is not supported yet and has no effect", v->key))
		return -ENOMEM;
	v->line = line ? line : 1;
	return 0;
}

/* libconfuse's parse callback: the value as text, for every type. */
static int on_value(cfg_t *cfg, cfg_opt_t *opt, const char *text, void *result)
{
	_buf_ struct buf path = BUF_INIT;
	struct load *l = loading;
	struct value *v;

	if (!path_of(l->cfg, opt, NULL, &path) || path.failed)
		return -1;
	v = conf_find(l->conf, (char *)path.data);
	if (!v || set_value(l, v, opt->nvalues == 1, l->toml ? l->line : cfg->line, text))
		return -1;
	if (opt->type == CFGT_STR)
		*(const char **)result = text;
	else if (opt->type == CFGT_INT)
		*(long *)result = (long)v->num;
	else
		*(int *)result = (int)v->num;
	return 0;
}

static cfg_opt_t option_of(const char *name, uint32_t type)
{
	switch (type) {
	case EDERA_CONF_INT:
		return (cfg_opt_t)CFG_INT_CB(name, 0, CFGF_NODEFAULT, on_value);
	case EDERA_CONF_BOOL:
		return (cfg_opt_t)CFG_BOOL_CB(name, cfg_false, CFGF_NODEFAULT, on_value);
	case EDERA_CONF_LIST:
		return (cfg_opt_t)CFG_STR_LIST_CB(name, NULL, CFGF_NODEFAULT, on_value);
	default:
		return (cfg_opt_t)CFG_STR_CB(name, NULL, CFGF_NODEFAULT, on_value);
	}
}

/* Tables under construction; cfg_init copies them all. */
struct tables {
	cfg_opt_t *opts;
	size_t n;
	bool failed;
};

static void add(struct tables *t, cfg_opt_t opt)
{
	cfg_opt_t *more = t->failed ? NULL : reallocarray(t->opts, t->n + 2, sizeof *more);

	if (!more) {
		t->failed = true;
		free(opt.subopts);
		return;
	}
	t->opts = more;
	t->opts[t->n++] = opt;
	t->opts[t->n] = (cfg_opt_t)CFG_END();
}

static void free_tables(cfg_opt_t *opts)
{
	for (cfg_opt_t *o = opts; o && o->name; o++)
		free_tables(o->subopts);
	free(opts);
}

static const char *last_part(const char *dotted)
{
	const char *dot = strrchr(dotted, '.');

	return dot ? dot + 1 : dotted;
}

static bool is_child(const char *name, const char *parent)
{
	size_t n = strlen(parent);

	if (!n)
		return !strchr(name, '.');
	return !strncmp(name, parent, n) && name[n] == '.' && !strchr(name + n + 1, '.');
}

static cfg_opt_t section_of(const char *name, struct tables t, cfg_flag_t flags)
{
	if (!t.opts)
		add(&t, (cfg_opt_t)CFG_END());
	return (cfg_opt_t)CFG_SEC(name, t.opts, flags);
}

static void add_plugins(const struct load *l, struct tables *t)
{
	for (size_t i = 0; i < l->n_plugins; i++) {
		struct tables keys = { 0 };

		for (const struct edera_conf_key *k = l->plugins[i].keys; k && k->name; k++)
			add(&keys, option_of(k->name, k->type));
		t->failed = t->failed || keys.failed;
		add(t, section_of(l->plugins[i].name, keys, CFGF_NONE));
	}
}

static struct tables tables_of(const struct load *l, const char *section);

static void add_learned(const struct load *l, const char *section, struct tables *t)
{
	for (size_t i = 0; i < l->n_learned; i++) {
		const struct learned *x = &l->learned[i];
		char path[512];

		if (strcmp(x->parent, section))
			continue;
		if (x->is_free) {
			add(t, option_of(x->name, EDERA_CONF_STRING));
		} else if (x->is_section) {
			snprintf(path, sizeof path, "%s%s%s", section, *section ? "." : "", x->name);
			add(t, section_of(x->name, tables_of(l, path), CFGF_NONE));
		} else {
			add(t, (cfg_opt_t)CFG_STR_LIST(x->name, NULL, CFGF_NODEFAULT)); /* takes a list, and a plain value too */
		}
	}
}

static struct tables tables_of(const struct load *l, const char *section)
{
	struct tables t = { 0 };

	for (const struct def *d = schema_defs; d->name; d++)
		if (!strcmp(d->section, section) && (!l->plugins_only || !strcmp(section, "plugins")))
			add(&t, option_of(d->name, d->type));
	for (const struct section *s = schema_sections; s->name; s++) {
		if (!is_child(s->name, section) || (s->flags & SECTION_UNSUPPORTED) || (l->plugins_only && strcmp(s->name, "plugins")))
			continue;
		add(&t, section_of(last_part(s->name), tables_of(l, s->name), s->flags & SECTION_FREE ? CFGF_KEYSTRVAL : CFGF_NONE));
	}
	if (!*section)
		add(&t, (cfg_opt_t)CFG_INT(OPTIONS_END, 0, CFGF_NODEFAULT));
	add_learned(l, section, &t);
	if (!strcmp(section, "plugin"))
		add_plugins(l, &t);
	return t;
}

cfg_opt_t *options_key(cfg_t *section, const char *name)
{
	for (unsigned i = 0; i < cfg_num(section); i++) {
		cfg_opt_t *o = cfg_getnopt(section, i);

		if (!strcmp(o->name, name))
			return o;
	}
	return NULL;
}

cfg_t *options_section(cfg_t *root, const char *section)
{
	char part[128];

	while (root && *section) {
		size_t n = strcspn(section, ".");
		cfg_opt_t *o;

		if (n >= sizeof part)
			return NULL;
		memcpy(part, section, n);
		part[n] = 0;
		section += n + (section[n] == '.');
		o = options_key(root, part);
		root = o && o->type == CFGT_SEC ? cfg_opt_getnsec(o, 0) : NULL;
	}
	return root;
}

cfg_t *options_new(struct load *l, cfg_errfunc_t errfunc)
{
	struct tables t = tables_of(l, "");
	cfg_t *cfg = NULL;

	loading = l;
	if (!t.failed)
		cfg = cfg_init(t.opts, CFGF_NONE);
	free_tables(t.opts);
	if (!cfg)
		return NULL;
	cfg_set_error_function(cfg, errfunc);
	return cfg;
}

const char *load_nearest_key(const struct load *l, const char *section, const char *name)
{
	cfg_t *sec = options_section(l->cfg, section);
	const char *names[256];
	size_t n = 0;

	for (unsigned i = 0; sec && i < cfg_num(sec) && n < ARRAY_SIZE(names); i++)
		if (strcmp(cfg_getnopt(sec, i)->name, OPTIONS_END))
			names[n++] = cfg_getnopt(sec, i)->name;
	return schema_nearest(name, names, n);
}
