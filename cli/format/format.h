/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the protocols as people and programs want to read them. */
#ifndef CLI_FORMAT_H
#define CLI_FORMAT_H

#include <json-c/json.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdio.h>
#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"

enum format { FORMAT_TABLE, FORMAT_JSON, FORMAT_JSON_PRETTY, FORMAT_JSONL, FORMAT_YAML, FORMAT_KEY_VALUE, FORMAT_SIMPLE };
extern const char *const format_names[];      /* all, NULL-ended */
extern const char *const format_data_names[]; /* all but table */
enum format format_parse(const char *name);   /* one of the names */

/* reflect.c: proto3 JSON of any message. Fields that have their default and no presence are left out. The caller puts it. */
struct json_object *format_message(const ProtobufCMessage *);

/* document.c */
void format_json(struct buf *, struct json_object *, bool pretty);
void format_key_value(struct buf *, struct json_object *);
/* yaml.c */
void format_yaml(struct buf *, struct json_object *);

enum colour { COLOUR_NONE, COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED };

struct column {
	const char *title;
	/* Text as it came; the printer escapes it. context: of the view. */
	void (*cell)(const void *message, const void *context, struct buf *);
	const char *missing;                             /* shown in a table for an empty cell */
	enum colour (*colour)(const void *message);      /* may be NULL */
};

/* list.c */
struct list_view {
	const struct column *columns;
	size_t n_columns;
	const struct column *simple; /* fields of a line of format simple; NULL: the columns */
	size_t n_simple;
	const char *empty; /* the sentence said in place of an empty table */
	const void *context;
};

void format_table(struct buf *, const struct list_view *, const void *const *rows, size_t n_rows, bool colours); /* table.c */
/* A document in one of the formats for programs, with its line end; not table, not simple. */
void format_document(struct buf *, enum format, struct json_object *);
/* One object with the format's own line end; FORMAT_TABLE is not for this. */
void format_object(struct buf *, enum format, const struct list_view *, const void *message);
void format_list(struct buf *, enum format, const struct list_view *, const void *const *rows, size_t n, bool colours);
bool format_colours(FILE *); /* a terminal, and neither NO_COLOR nor TERM=dumb says no */

/* select.c: "status.state=ready", "spec.name!=web" */
struct selector;
/* -EINVAL with a sentence if it does not parse or names no field of that message. */
int selector_new(const char *text, const ProtobufCMessageDescriptor *, struct selector **ret, struct edera_error *);
bool selector_match(const struct selector *, const void *message);
void selector_free(struct selector *);

/* "ready" for ZONE_STATE_READY: the value's name without what all names of its enum begin with, in lower case. */
void format_enum_word(struct buf *, const ProtobufCEnumDescriptor *, int value);

#endif
