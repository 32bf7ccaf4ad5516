/* SPDX-License-Identifier: Apache-2.0 */
/* One key's value, and the one place where text becomes a value of a type. */
#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include "conf/schema.h"

/* What a key may hold, whether the core's schema or a plugin declares it. */
struct spec {
	uint32_t type; /* enum edera_conf_type */
	bool secret, reload, unsupported;
	int64_t min, max; /* of an int */
	int (*check)(const char *, struct edera_error *);
	const char *def;
};

struct value {
	char *key; /* with dots; for a plugin's own section: without its prefix */
	struct spec spec;
	char *str;
	int64_t num; /* int, bool */
	char **items;
	size_t n_items;
	int line; /* 0: the default holds */
};

struct spec spec_of_def(const struct def *);
struct spec spec_of_key(const struct edera_conf_key *);
/* "a whole number from 1 to 4", "a string", ... */
void spec_expects(const struct spec *, char dst[96]);

/* Checks one scalar, or one item of a list; *ret_num is set for numbers and booleans. err: "expected ...". */
int value_parse(const struct spec *, const char *text, int64_t *ret_num, struct edera_error *);
/* Sets from text, or from items for a list; copies. */
int value_set(struct value *, const char *text, struct edera_error *);
int value_add_item(struct value *, const char *text, struct edera_error *);
void value_clear_items(struct value *);
int value_set_default(struct value *, struct edera_error *);
int value_copy(struct value *dst, const struct value *src); /* 0 or -ENOMEM */
bool value_equal(const struct value *, const struct value *);
void value_free(struct value *);
/* As the syntax of daemon.toml has it. */
void value_print(const struct value *, struct buf *);

#endif
