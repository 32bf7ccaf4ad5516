/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.conf: libconfuse parses, sets the options and, through them, the values. What its error function hears is one of three
 * things: a free name it meets for the first time (it goes on), something to be read over (it stops, and the next try knows; its own
 * CFGF_IGNORE_UNKNOWN loses its way in nested sections), or an error. */
#include "conf/conf_impl.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

static _Thread_local struct load *reading;

static void on_error(cfg_t *cfg, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

static void on_unknown(struct load *l, cfg_t *cfg, const char *name)
{
	_buf_ struct buf section = BUF_INIT;

	if (options_path_of_section(l->cfg, cfg, &section)) {
		load_fail(l, -ENOMEM, cfg->line, "out of memory");
		return;
	}
	if (!strcmp(name, OPTIONS_END))
		load_fail(l, -EINVAL, cfg->line - 1 - text_ends(l->text, "\n"), "the file ends inside the section %s: a '}' is missing", (char *)section.data);
	else if (cfg->flags & CFGF_KEYSTRVAL)
		load_learn(l, cfg->line, (char *)section.data, name, true);
	else if (load_is_loose(l, (char *)section.data, name))
		load_learn(l, cfg->line, (char *)section.data, name, false);
	else
		load_fail_unknown(l, cfg->line, (char *)section.data, name);
}

/* A name that is read over turns out to be a section. */
static bool on_no_equals(struct load *l, cfg_t *cfg, const char *name)
{
	_buf_ struct buf section = BUF_INIT;
	struct learned *x = options_path_of_section(l->cfg, cfg, &section) ? NULL : load_find_learned(l, (char *)section.data, name);

	if (!x || x->is_free || x->is_section)
		return false;
	x->is_section = l->again = true;
	return true;
}

static void on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
	struct load *l = reading;
	char why[300];
	va_list args;
	bool learned;

	if (!strncmp(fmt, "no such option", 14)) {
		on_unknown(l, cfg, va_arg(ap, const char *));
		return;
	}
	va_copy(args, ap);
	learned = !strncmp(fmt, "missing equal sign", 18) && on_no_equals(l, cfg, va_arg(args, const char *));
	va_end(args);
	if (learned)
		return;
	vsnprintf(why, sizeof why, fmt, ap);
	load_fail(l, -EINVAL, cfg->line, "%s", why);
}

/* `key = {}` calls nothing back: the option is marked as modified and holds nothing. */
static void empty_lists(struct load *l)
{
	for (size_t i = 0; i < l->conf->n_values; i++) {
		struct value *v = &l->conf->values[i];
		const char *dot = strrchr(v->key, '.');
		_buf_ struct buf section = BUF_INIT;
		cfg_t *sec;
		cfg_opt_t *opt;

		buf_append(&section, v->key, (size_t)(dot - v->key));
		sec = v->spec.type == EDERA_CONF_LIST && !section.failed ? options_section(l->cfg, (char *)section.data) : NULL;
		opt = sec ? options_key(sec, dot + 1) : NULL;
		if (opt && (opt->flags & CFGF_MODIFIED) && !cfg_opt_size(opt))
			value_clear_items(v);
	}
}

int load_confuse(struct load *l)
{
	_buf_ struct buf text = BUF_INIT;
	int r;

	reading = l;
	l->cfg = options_new(l, on_error);
	buf_printf(&text, "%s\n%s = 1\n", l->text, OPTIONS_END);
	if (!l->cfg || text.failed)
		return load_fail(l, -ENOMEM, 0, "out of memory");
	r = cfg_parse_buf(l->cfg, (char *)text.data);
	if (l->failed)
		return l->err ? l->err->code : -EINVAL;
	if (r != CFG_SUCCESS && !l->again)
		return load_fail(l, -EINVAL, l->cfg->line, "this cannot be understood");
	empty_lists(l);
	return 0;
}
