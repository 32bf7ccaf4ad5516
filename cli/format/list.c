/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/format/format.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const format_names[] = { "table", "json", "json-pretty", "jsonl", "yaml", "key-value", "simple", NULL };
const char *const format_data_names[] = { "simple", "json", "json-pretty", "jsonl", "yaml", "key-value", NULL };

enum format format_parse(const char *name)
{
	for (size_t i = 0; format_names[i]; i++)
		if (!strcmp(format_names[i], name))
			return (enum format)i;
	return FORMAT_TABLE;
}

bool format_colours(FILE *f)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fileno(f)) && !(no && *no) && term && strcmp(term, "dumb");
}

static void simple_line(struct buf *b, const struct list_view *view, const void *message)
{
	const struct column *columns = view->simple ? view->simple : view->columns;
	size_t n = view->simple ? view->n_simple : view->n_columns;

	for (size_t c = 0; c < n; c++) {
		struct buf raw _buf_ = BUF_INIT;

		columns[c].cell(message, view->context, &raw);
		buf_puts(b, c ? "\t" : "");
		text_escape(b, raw.len ? (const char *)raw.data : "");
	}
	buf_puts(b, "\n");
}

void format_document(struct buf *b, enum format format, struct json_object *o)
{
	if (format == FORMAT_YAML) {
		format_yaml(b, o);
		return;
	}
	if (format == FORMAT_KEY_VALUE)
		format_key_value(b, o);
	else
		format_json(b, o, format == FORMAT_JSON_PRETTY);
	buf_puts(b, "\n");
}

void format_object(struct buf *b, enum format format, const struct list_view *view, const void *message)
{
	struct json_object *o;

	if (format == FORMAT_SIMPLE || format == FORMAT_TABLE) {
		simple_line(b, view, message);
		return;
	}
	o = format_message(message);
	format_document(b, format, o);
	json_object_put(o);
}

static void array(struct buf *b, enum format format, const void *const *rows, size_t n)
{
	struct json_object *a = json_object_new_array();

	for (size_t i = 0; i < n; i++)
		json_object_array_add(a, format_message(rows[i]));
	format_document(b, format, a);
	json_object_put(a);
}

void format_list(struct buf *b, enum format format, const struct list_view *view, const void *const *rows, size_t n, bool colours)
{
	switch (format) {
	case FORMAT_TABLE:
		if (n || !view->empty)
			format_table(b, view, rows, n, colours);
		else
			buf_printf(b, "%s\n", view->empty);
		break;
	case FORMAT_JSON:
	case FORMAT_JSON_PRETTY:
	case FORMAT_YAML:
		array(b, format, rows, n);
		break;
	case FORMAT_JSONL:
	case FORMAT_KEY_VALUE:
	case FORMAT_SIMPLE:
		for (size_t i = 0; i < n; i++)
			format_object(b, format, view, rows[i]);
		break;
	}
}
