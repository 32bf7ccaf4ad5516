/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's own section, in the form the ABI hands over. */
#include "conf/conf_impl.h"
#include "base/cleanup.h"
#include "base/error.h"

#include <string.h>

struct edera_conf {
	size_t n;
	struct value *values;   /* keys without "plugin.NAME." */
	struct value *defaults; /* the same keys as declared */
};

static int fill(struct edera_conf *ec, const struct conf *c, const struct conf_plugin *p)
{
	for (const struct edera_conf_key *k = p->keys; k && k->name; k++, ec->n++) {
		struct value *v = &ec->values[ec->n], *def = &ec->defaults[ec->n];
		const struct value *set;
		char key[256];

		snprintf(key, sizeof key, "plugin.%s.%s", p->name, k->name);
		*def = (struct value){ .key = strdup(k->name), .spec = spec_of_key(k) };
		if (!def->key || value_set_default(def, NULL))
			goto fail;
		set = c ? conf_find(c, key) : NULL;
		if (value_copy(v, set ? set : def))
			goto fail;
		free(v->key);
		v->key = strdup(k->name);
		if (!v->key)
			goto fail;
	}
	return 0;
fail:
	ec->n++;
	return -ENOMEM;
}

struct edera_conf *conf_plugin_section(const struct conf *c, const struct conf_plugin *p)
{
	struct edera_conf *ec = calloc(1, sizeof *ec);
	size_t n = 0;

	while (p->keys && p->keys[n].name)
		n++;
	if (!ec)
		return NULL;
	ec->values = calloc(n + 1, sizeof *ec->values);
	ec->defaults = calloc(n + 1, sizeof *ec->defaults);
	if (ec->values && ec->defaults && !fill(ec, c, p))
		return ec;
	edera_conf_free(ec);
	return NULL;
}

void edera_conf_free(struct edera_conf *ec)
{
	if (!ec)
		return;
	for (size_t i = 0; i < ec->n; i++) {
		value_free(&ec->values[i]);
		value_free(&ec->defaults[i]);
	}
	free(ec->values);
	free(ec->defaults);
	free(ec);
}

static const struct value *get(const struct edera_conf *ec, const char *key, uint32_t type)
{
	for (size_t i = 0; ec && i < ec->n; i++)
		if (!strcmp(ec->values[i].key, key))
			return ec->values[i].spec.type == type ? &ec->values[i] : NULL;
	return NULL;
}

const char *edera_conf_str(const struct edera_conf *ec, const char *key)
{
	const struct value *v = get(ec, key, EDERA_CONF_STRING);

	return v ? v->str : "";
}

int64_t edera_conf_int(const struct edera_conf *ec, const char *key)
{
	const struct value *v = get(ec, key, EDERA_CONF_INT);

	return v ? v->num : 0;
}

int edera_conf_bool(const struct edera_conf *ec, const char *key)
{
	const struct value *v = get(ec, key, EDERA_CONF_BOOL);

	return v ? (int)v->num : 0;
}

size_t edera_conf_list(const struct edera_conf *ec, const char *key, const char *const **ret_items)
{
	const struct value *v = get(ec, key, EDERA_CONF_LIST);

	*ret_items = v ? (const char *const *)v->items : NULL;
	return v ? v->n_items : 0;
}

void edera_conf_print(const struct edera_conf *ec, const char *key, struct buf *value, struct buf *def)
{
	for (size_t i = 0; ec && i < ec->n; i++) {
		const struct value *v = &ec->values[i];

		if (strcmp(v->key, key))
			continue;
		if (v->spec.secret && !value_equal(v, &ec->defaults[i]))
			buf_puts(value, "(set)");
		else
			value_print(v, value);
		value_print(&ec->defaults[i], def);
	}
}
