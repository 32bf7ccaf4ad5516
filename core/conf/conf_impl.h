/* SPDX-License-Identifier: Apache-2.0 */
/* What a struct conf is made of; for the files of this folder only. */
#ifndef CONF_CONF_IMPL_H
#define CONF_CONF_IMPL_H

#include <stdatomic.h>
#include "conf/value.h"

struct conf {
	atomic_uint refs;
	struct value *values; /* every key there is, set or not; keys with their section */
	size_t n_values;
	struct value *names; /* free-named keys, in file order */
	size_t n_names;
	char **warnings;
	size_t n_warnings;
};

/* A name that the schema does not hold and that is no error. */
struct learned {
	char *parent, *name; /* parent: the section, with dots */
	bool is_free;        /* a key of a free-named section; else something that is read over */
	bool is_section;     /* read over: a section, or a value */
	int line;
};

/* One reading of one file. */
struct load {
	const char *path;
	bool toml, plugins_only;
	const char *text;
	size_t len;
	const struct conf_plugin *plugins;
	size_t n_plugins;

	/* What earlier tries of the same reading found: libconfuse must know every name before it parses. */
	struct learned *learned;
	size_t n_learned;

	struct conf *conf;
	cfg_t *cfg;
	int line;           /* of the TOML value being fed */
	bool again, failed; /* a try learned something new; err is set */
	struct edera_error *err;
};

struct conf *conf_new(const struct load *, struct edera_error *); /* every key with its default */
struct value *conf_find(const struct conf *, const char *key);
int conf_warn(struct load *, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* options.c: the libconfuse side. OPTIONS_END is a key of the root that load_confuse adds after the text: libconfuse takes the end of
 * the file for the end of every open section, so a missing brace shows only in where this key lands. */
#define OPTIONS_END "__end"
cfg_t *options_new(struct load *, cfg_errfunc_t);
cfg_t *options_section(cfg_t *root, const char *section); /* NULL: there is none */
cfg_opt_t *options_key(cfg_t *section, const char *name); /* NULL: there is none, and no error is printed */
/* May this name, which is not in the schema, be read over? Unsupported sections, absent plugins; in the first pass all but [plugins]. */
bool load_is_loose(const struct load *, const char *section, const char *name);
int options_path_of_section(cfg_t *root, const cfg_t *wanted, struct buf *ret);
const char *load_nearest_key(const struct load *, const char *section, const char *name); /* within 3 edits or so, or NULL */

int load_fail(struct load *, int code, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int load_fail_unknown(struct load *, int line, const char *section, const char *name);
/* Notes a name that this try meets for the first time. */
int load_learn(struct load *, int line, const char *section, const char *name, bool is_free);
struct learned *load_find_learned(const struct load *, const char *section, const char *name);
int load_toml(struct load *);
int load_confuse(struct load *);

#endif
