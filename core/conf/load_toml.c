/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.toml: toml++ gives values with their lines, which are set as libconfuse options like those of daemon.conf. */
#include "conf/conf_impl.h"
#include "conf/toml_parse.h"
#include "base/error.h"

#include <string.h>

static void on_syntax(void *user, int line, const char *why)
{
	load_fail(user, -EINVAL, line, "%s", why);
}

static int join(const struct toml_value *v, size_t depth, struct buf *b)
{
	for (size_t i = 0; i < depth; i++)
		buf_printf(b, "%s%s", i ? "." : "", v->path[i]);
	return buf_reserve(b, 0);
}

/* Free names must be options before values are set: a walk of its own over the file collects them. */
static int on_name(void *user, const struct toml_value *v)
{
	_buf_ struct buf section = BUF_INIT;
	const struct section *s;
	struct load *l = user;

	if (join(v, v->depth - 1, &section))
		return load_fail(l, -ENOMEM, v->line, "out of memory");
	s = schema_section((char *)section.data);
	if (!s || !(s->flags & SECTION_FREE))
		return 0;
	return load_learn(l, v->line, s->name, v->path[v->depth - 1], true);
}

static int type_mismatch(struct load *l, const struct toml_value *v, const char *section, const struct value *value)
{
	char expects[96];

	spec_expects(&value->spec, expects);
	return load_fail(l, -EINVAL, v->line, "%s.%s: expected %s, found %s", section, v->path[v->depth - 1], expects, v->kind);
}

static int feed(struct load *l, const struct toml_value *v, const char *section, cfg_t *cfg, cfg_opt_t *opt)
{
	static const enum toml_type wanted[] = { [EDERA_CONF_STRING] = TOML_STRING, [EDERA_CONF_INT] = TOML_INTEGER,
						 [EDERA_CONF_BOOL] = TOML_BOOLEAN, [EDERA_CONF_LIST] = TOML_STRINGS };
	_buf_ struct buf key = BUF_INIT;
	struct value *value;

	buf_printf(&key, "%s.%s", section, opt->name);
	value = key.failed ? NULL : conf_find(l->conf, (char *)key.data);
	if (!value)
		return load_fail(l, -ENOMEM, v->line, "out of memory");
	if (wanted[value->spec.type] != v->type)
		return type_mismatch(l, v, section, value);
	l->line = v->line;
	if (v->type != TOML_STRINGS && !cfg_setopt(cfg, opt, v->text))
		return load_fail(l, -EINVAL, v->line, "%s cannot be set", value->key);
	for (size_t i = 0; i < v->n_items; i++) {
		l->line = v->item_lines[i];
		if (!cfg_setopt(cfg, opt, v->items[i]))
			return load_fail(l, -EINVAL, l->line, "%s cannot be set", value->key);
	}
	if (v->type == TOML_STRINGS && !v->n_items) {
		value_clear_items(value);
		value->line = v->line;
	}
	return 0;
}

static int on_value(void *user, const struct toml_value *v)
{
	_buf_ struct buf section = BUF_INIT, whole = BUF_INIT;
	const char *name = v->path[v->depth - 1];
	struct load *l = user;
	cfg_opt_t *opt;
	cfg_t *cfg;

	if (l->plugins_only && strcmp(v->path[0], "plugins"))
		return 0;
	if (join(v, v->depth - 1, &section) || join(v, v->depth, &whole))
		return load_fail(l, -ENOMEM, v->line, "out of memory");
	cfg = options_section(l->cfg, (char *)section.data);
	opt = cfg ? options_key(cfg, name) : NULL;
	if (!opt && load_is_loose(l, (char *)section.data, name))
		return load_learn(l, v->line, (char *)section.data, name, false);
	if (!opt)
		return load_fail_unknown(l, v->line, (char *)section.data, name);
	if (opt->type == CFGT_SEC && v->type != TOML_TABLE)
		return load_fail(l, -EINVAL, v->line, "%s: expected a section, found %s", (char *)whole.data, v->kind);
	return opt->type == CFGT_SEC ? 0 : feed(l, v, (char *)section.data, cfg, opt);
}

static void on_confuse(cfg_t *cfg, const char *fmt, va_list ap)
{
	(void)cfg; /* values are checked by our own callback, which has said what is wrong */
	(void)fmt;
	(void)ap;
}

int load_toml(struct load *l)
{
	int r = l->plugins_only ? 0 : toml_parse(l->text, l->len, on_name, on_syntax, l);

	if (!r && !l->again) {
		l->cfg = options_new(l, on_confuse);
		r = l->cfg ? toml_parse(l->text, l->len, on_value, on_syntax, l) : -ENOMEM;
	}
	l->again = l->again && !l->cfg; /* what is read over need not be known */
	return r == -ENOMEM ? load_fail(l, r, 0, "out of memory") : r;
}
