/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a file: common to both syntaxes. */
#include "conf/conf_impl.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"
#include "base/text.h"

#include <stdarg.h>
#include <string.h>

#define MAX_FILE (1u << 20)
#define MAX_NAMES 4096 /* free names, and sections of absent plugins, in one file */

int load_fail(struct load *l, int code, int line, const char *fmt, ...)
{
	char what[440];
	va_list ap;

	if (l->failed)
		return code; /* the first error is the one to mend first */
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	l->failed = true;
	if (line > 0)
		return err_set(l->err, code, "%s:%d: %s", l->path, line, what);
	return err_set(l->err, code, "%s: %s", l->path, what);
}

int load_fail_unknown(struct load *l, int line, const char *section, const char *name)
{
	const char *near = load_nearest_key(l, section, name), *dot = *section ? "." : "";

	if (near)
		return load_fail(l, -EINVAL, line, "%s%s%.100s: there is no such key; did you mean %s%s%s?", section, dot, name, section, dot, near);
	return load_fail(l, -EINVAL, line, "%s%s%.100s: there is no such %s", section, dot, name, *section ? "key" : "section");
}

static int push(char ***list, size_t *n, char *item)
{
	char **more = item && *n < MAX_NAMES ? reallocarray(*list, *n + 1, sizeof *more) : NULL;

	if (!more) {
		free(item);
		return -ENOMEM;
	}
	*list = more;
	more[(*n)++] = item;
	return 0;
}

int conf_warn(struct load *l, int line, const char *fmt, ...)
{
	_buf_ struct buf b = BUF_INIT;
	char what[440];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	buf_printf(&b, "%s:%d: %s", l->path, line, what);
	return push(&l->conf->warnings, &l->conf->n_warnings, buf_steal(&b));
}

struct learned *load_find_learned(const struct load *l, const char *section, const char *name)
{
	for (size_t i = 0; i < l->n_learned; i++)
		if (!strcmp(l->learned[i].name, name) && !strcmp(l->learned[i].parent, section))
			return &l->learned[i];
	return NULL;
}

int load_learn(struct load *l, int line, const char *section, const char *name, bool is_free)
{
	struct edera_error why = EDERA_ERROR_INIT;
	struct learned *more, x = { .is_free = is_free, .line = line };

	if (load_find_learned(l, section, name))
		return 0;
	if (is_free && schema_check_variant_name(name, &why))
		return load_fail(l, -EINVAL, line, "%s.%.100s: %s", section, name, why.msg);
	if (l->n_learned >= MAX_NAMES)
		return load_fail(l, -E2BIG, line, "more than %d free names", MAX_NAMES);
	l->again = true;
	x.parent = strdup(section);
	x.name = strdup(name);
	more = x.parent && x.name ? reallocarray(l->learned, l->n_learned + 1, sizeof x) : NULL;
	if (!more) {
		free(x.parent);
		free(x.name);
		return load_fail(l, -ENOMEM, line, "out of memory");
	}
	l->learned = more;
	more[l->n_learned++] = x;
	return 0;
}

static bool known_plugin(const struct load *l, const char *name, size_t len)
{
	for (size_t i = 0; i < l->n_plugins; i++)
		if (!strncmp(l->plugins[i].name, name, len) && !l->plugins[i].name[len])
			return true;
	return false;
}

bool load_is_loose(const struct load *l, const char *section, const char *name)
{
	const char *top = *section ? section : name;
	const struct section *s;
	char first[64];

	if (l->plugins_only)
		return true;
	if (!strcmp(section, "plugin"))
		return !known_plugin(l, name, strlen(name));
	if (!strncmp(section, "plugin.", 7))
		return !known_plugin(l, section + 7, strcspn(section + 7, "."));
	snprintf(first, sizeof first, "%.*s", (int)(strcspn(top, ".") & 63), top);
	s = schema_section(first);
	return s && (s->flags & SECTION_UNSUPPORTED);
}

/* One value bigger than another: for keys that bound each other. */
static int check_order(struct load *l, const char *small, const char *large)
{
	struct value *a = conf_find(l->conf, small), *b = conf_find(l->conf, large);

	if (a->num <= b->num)
		return 0;
	return load_fail(l, -EINVAL, a->line ? a->line : b->line, "%s = %lld is more than %s = %lld", small, (long long)a->num, large,
			 (long long)b->num);
}

static int warn_loose(struct load *l)
{
	for (size_t i = 0; i < l->n_learned && !l->plugins_only; i++) {
		const struct learned *x = &l->learned[i];
		int r = 0;

		if (!*x->parent)
			r = conf_warn(l, x->line, "the section %.100s is not supported yet and has no effect", x->name);
		else if (!strcmp(x->parent, "plugin"))
			r = conf_warn(l, x->line, "no plugin %.100s is loaded, so the section plugin.%.100s has no effect", x->name, x->name);
		if (r)
			return load_fail(l, r, 0, "out of memory");
	}
	return 0;
}

/* Tries until nothing new turns up: each try knows the free names and absent plugins that those before it met. */
static int read_text(struct load *l)
{
	int r;

	do {
		l->again = false;
		conf_unref(l->conf);
		l->conf = conf_new(l, l->err);
		if (!l->conf)
			return -EINVAL;
		r = l->toml ? load_toml(l) : load_confuse(l);
		cfg_free(l->cfg);
		l->cfg = NULL;
	} while (l->again && !l->failed);
	if (!r)
		r = warn_loose(l);
	if (!r && !l->plugins_only)
		r = check_order(l, "zone.target-memory-mb", "zone.memory-limit-mb");
	if (!r && !l->plugins_only)
		r = check_order(l, "zone.target-cpus", "zone.max-cpus");
	return r;
}

static int check_text(struct load *l)
{
	int line = 1;
	const char *end = l->text + l->len;

	for (const char *p = l->text; p < end; line++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((nl ? nl : end) - p);

		if (!text_valid_utf8(p, n))
			return load_fail(l, -EINVAL, line, "expected text in UTF-8");
		p += n + 1;
	}
	return 0;
}

/* l->path and l->toml are set; the text is borrowed and ends with a NUL. */
static int load_text(struct load *l, const char *text, size_t len, struct conf **ret)
{
	int r;

	l->text = text;
	l->len = len;
	r = check_text(l);
	if (!r)
		r = read_text(l);
	if (!r) {
		*ret = l->conf;
		l->conf = NULL;
	}
	conf_unref(l->conf);
	for (size_t i = 0; i < l->n_learned; i++) {
		free(l->learned[i].parent);
		free(l->learned[i].name);
	}
	free(l->learned);
	return r;
}

static int load_file(struct load *l, struct conf **ret)
{
	_buf_ struct buf text = BUF_INIT;
	int r = l->path ? path_read_file(l->path, MAX_FILE, &text, l->err) : 0;

	if (r)
		return r;
	l->toml = !l->path || !text_ends(l->path, ".conf");
	l->path = l->path ? l->path : "(defaults)";
	return load_text(l, text.data ? (char *)text.data : "", text.len, ret);
}

int conf_load_plugins(const char *path, struct conf **ret, struct edera_error *err)
{
	struct load l = { .path = path, .plugins_only = true, .err = err };

	return load_file(&l, ret);
}

int conf_load(const char *path, const struct conf_plugin *plugins, size_t n_plugins, struct conf **ret, struct edera_error *err)
{
	struct load l = { .path = path, .plugins = plugins, .n_plugins = n_plugins, .err = err };

	return load_file(&l, ret);
}

int conf_load_text(const char *text, bool toml, const struct conf_plugin *plugins, size_t n_plugins, struct conf **ret, struct edera_error *err)
{
	struct load l = { .path = "(text)", .toml = toml, .plugins = plugins, .n_plugins = n_plugins, .err = err };

	return load_text(&l, text, strlen(text), ret);
}
