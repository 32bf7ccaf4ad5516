/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/value.h"
#include "base/cleanup.h"
#include "base/error.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

struct spec spec_of_def(const struct def *d)
{
	return (struct spec){ .type = d->type, .reload = d->flags & DEF_RELOAD, .unsupported = d->flags & DEF_UNSUPPORTED, .min = d->min,
			      .max = d->max, .check = d->check, .def = d->def };
}

struct spec spec_of_key(const struct edera_conf_key *k)
{
	return (struct spec){ .type = k->type, .secret = k->flags & EDERA_CONF_SECRET, .reload = true, .min = INT64_MIN, .max = INT64_MAX,
			      .def = k->def };
}

void spec_expects(const struct spec *s, char dst[96])
{
	const char *what = s->type == EDERA_CONF_STRING ? "a string" : s->type == EDERA_CONF_BOOL ? "true or false" : "a list of strings";

	if (s->type != EDERA_CONF_INT)
		snprintf(dst, 96, "%s", what);
	else if (s->min == INT64_MIN)
		snprintf(dst, 96, "a whole number");
	else
		snprintf(dst, 96, "a whole number from %" PRId64 " to %" PRId64, s->min, s->max);
}

static int parse_int(const struct spec *s, const char *text, int64_t *ret)
{
	char *end;
	long long v;

	if (!((*text >= '0' && *text <= '9') || (*text == '-' && text[1] >= '0' && text[1] <= '9')))
		return -EINVAL;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (*end || errno || v < s->min || v > s->max)
		return -EINVAL;
	*ret = v;
	return 0;
}

static int parse_bool(const char *text, int64_t *ret)
{
	static const struct { const char *word; bool value; } words[] = {
		{ "true", true }, { "yes", true }, { "on", true }, { "false", false }, { "no", false }, { "off", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strcasecmp(words[i].word, text)) {
			*ret = words[i].value;
			return 0;
		}
	return -EINVAL;
}

int value_parse(const struct spec *s, const char *text, int64_t *ret_num, struct edera_error *err)
{
	char expects[96];
	int r = 0;

	if (s->type == EDERA_CONF_INT)
		r = parse_int(s, text, ret_num);
	else if (s->type == EDERA_CONF_BOOL)
		r = parse_bool(text, ret_num);
	if (r) {
		spec_expects(s, expects);
		return err_set(err, r, "expected %s", expects);
	}
	return s->check ? s->check(text, err) : 0;
}

int value_set(struct value *v, const char *text, struct edera_error *err)
{
	char *copy;
	int r = value_parse(&v->spec, text, &v->num, err);

	if (r)
		return r;
	copy = strdup(text);
	if (!copy)
		return err_errno(err, -ENOMEM, "cannot keep the configuration");
	free(v->str);
	v->str = copy;
	return 0;
}

int value_add_item(struct value *v, const char *text, struct edera_error *err)
{
	int64_t unused;
	char **items, *copy;
	int r = value_parse(&v->spec, text, &unused, err);

	if (r)
		return r;
	items = reallocarray(v->items, v->n_items + 1, sizeof *items);
	if (items)
		v->items = items;
	copy = items ? strdup(text) : NULL;
	if (!copy)
		return err_errno(err, -ENOMEM, "cannot keep the configuration");
	v->items[v->n_items++] = copy;
	return 0;
}

void value_clear_items(struct value *v)
{
	for (size_t i = 0; i < v->n_items; i++)
		free(v->items[i]);
	v->n_items = 0;
}

static void silent(cfg_t *cfg, const char *fmt, va_list ap)
{
	(void)cfg;
	(void)fmt;
	(void)ap;
}

/* A list's default is written as daemon.conf writes lists, so libconfuse reads it. */
static int default_items(struct value *v, struct edera_error *err)
{
	cfg_opt_t opts[] = { CFG_STR_LIST("x", NULL, CFGF_NODEFAULT), CFG_END() };
	_buf_ struct buf text = BUF_INIT;
	cfg_t *cfg = cfg_init(opts, CFGF_NONE);
	int r = 0;

	buf_printf(&text, "x = %s", v->spec.def);
	if (!cfg || text.failed) {
		r = err_errno(err, -ENOMEM, "cannot keep the configuration");
		goto out;
	}
	cfg_set_error_function(cfg, silent);
	if (cfg_parse_buf(cfg, (char *)text.data) != CFG_SUCCESS) {
		r = err_set(err, -EINVAL, "expected a list as in {\"a\", \"b\"}");
		goto out;
	}
	for (unsigned i = 0; i < cfg_size(cfg, "x") && !r; i++)
		r = value_add_item(v, cfg_getnstr(cfg, "x", i), err);
out:
	cfg_free(cfg);
	return r;
}

int value_set_default(struct value *v, struct edera_error *err)
{
	static const char *const empty[] = { [EDERA_CONF_STRING] = "", [EDERA_CONF_INT] = "0", [EDERA_CONF_BOOL] = "false" };
	const char *def = v->spec.def;
	_free_ char *bare = NULL;
	struct spec loose = v->spec;
	size_t n;

	if (v->spec.type == EDERA_CONF_LIST)
		return def && *def ? default_items(v, err) : 0;
	if (!def || !*def) {
		/* Empty is what "not set" looks like, whatever the check says of values that are set. */
		v->str = strdup(empty[loose.type]);
		v->num = 0;
		return v->str ? 0 : err_errno(err, -ENOMEM, "cannot keep the configuration");
	}
	n = strlen(def);
	if (n >= 2 && def[0] == '"' && def[n - 1] == '"')
		def = bare = strndup(def + 1, n - 2);
	return def ? value_set(v, def, err) : err_errno(err, -ENOMEM, "cannot keep the configuration");
}

int value_copy(struct value *dst, const struct value *src)
{
	struct value v = { .spec = src->spec, .num = src->num, .line = src->line };

	v.key = strdup(src->key);
	v.str = src->str ? strdup(src->str) : NULL;
	if (!v.key || (src->str && !v.str))
		goto fail;
	v.items = src->n_items ? calloc(src->n_items, sizeof *v.items) : NULL;
	if (src->n_items && !v.items)
		goto fail;
	for (; v.n_items < src->n_items; v.n_items++)
		if (!(v.items[v.n_items] = strdup(src->items[v.n_items])))
			goto fail;
	*dst = v;
	return 0;
fail:
	value_free(&v);
	return -ENOMEM;
}

bool value_equal(const struct value *a, const struct value *b)
{
	if (a->spec.type != b->spec.type || a->num != b->num || a->n_items != b->n_items)
		return false;
	if (a->spec.type == EDERA_CONF_STRING && strcmp(a->str, b->str))
		return false;
	for (size_t i = 0; i < a->n_items; i++)
		if (strcmp(a->items[i], b->items[i]))
			return false;
	return true;
}

void value_free(struct value *v)
{
	free(v->key);
	free(v->str);
	value_clear_items(v);
	free(v->items);
	*v = (struct value){ 0 };
}

static void print_string(struct buf *b, const char *s)
{
	buf_puts(b, "\"");
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			buf_printf(b, "\\%c", *s);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			buf_printf(b, "\\u%04x", (unsigned)*s);
		else
			buf_append(b, s, 1);
	buf_puts(b, "\"");
}

void value_print(const struct value *v, struct buf *b)
{
	switch (v->spec.type) {
	case EDERA_CONF_INT:
		buf_printf(b, "%" PRId64, v->num);
		break;
	case EDERA_CONF_BOOL:
		buf_puts(b, v->num ? "true" : "false");
		break;
	case EDERA_CONF_LIST:
		buf_puts(b, "[");
		for (size_t i = 0; i < v->n_items; i++) {
			buf_puts(b, i ? ", " : "");
			print_string(b, v->items[i]);
		}
		buf_puts(b, "]");
		break;
	default:
		print_string(b, v->str);
	}
}
