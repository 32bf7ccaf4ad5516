/* SPDX-License-Identifier: Apache-2.0 */
/* TOML 1.0, as a walk over tables and values in the order of the file. */
#ifndef CONF_TOML_PARSE_H
#define CONF_TOML_PARSE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum toml_type {
	TOML_TABLE,
	TOML_STRING,
	TOML_INTEGER,
	TOML_BOOLEAN,
	TOML_STRINGS, /* an array of strings only (or empty) */
	TOML_OTHER,   /* float, date, mixed array, array of tables */
};

struct toml_value {
	const char *const *path; /* names from the root down */
	size_t depth;
	enum toml_type type;
	const char *kind;  /* for messages: "a string", "a date", ... */
	const char *text;  /* TOML_STRING, TOML_INTEGER (decimal), TOML_BOOLEAN (true, false); otherwise "" */
	const char *const *items;
	const int *item_lines;
	size_t n_items;
	int line;
};

/* Calls value for each table and leaf; its non-zero return stops the walk and is returned. A syntax error calls failed with the
 * parser's sentence, and returns -EINVAL; -ENOMEM without a call. Strings live for the call. */
int toml_parse(const char *text, size_t len, int (*value)(void *user, const struct toml_value *),
	       void (*failed)(void *user, int line, const char *why), void *user);

#ifdef __cplusplus
}
#endif
#endif
