/* SPDX-License-Identifier: Apache-2.0 */
/* The command tree is data: each verb is one struct command in its own file, and parsing, help and completion are
 * read off it. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct cli;

struct strings {
	const char **v;
	size_t n;
};

enum opt_type {
	OPT_FLAG = 1, /* bool */
	OPT_STRING,   /* const char *; the last one given counts */
	OPT_LIST,     /* struct strings; may be given again and again */
	OPT_U32,      /* uint32_t */
	OPT_U64,      /* uint64_t */
};

/* What a value names, for completion in a shell. */
enum names { NAMES_NONE = 0, NAMES_FILE, NAMES_ZONE, NAMES_WORKLOAD, NAMES_IMAGE, NAMES_VARIANT, NAMES_PLUGIN };

struct opt {
	const char *name; /* long name without dashes */
	char letter;      /* 0: none */
	enum opt_type type;
	size_t offset;    /* of the member in the verb's struct of arguments */
	const char *meta; /* what the value is called in help; NULL for flags */
	const char *help;
	const char *def;  /* default as help shows it; NULL: nothing to say. With type OPT_STRING and choices it is also the value */
	const char *const *choices; /* NULL-ended; any other value is refused */
	const char *alias;          /* second long name and letter, accepted but not advertised */
	char alias_letter;
	bool required;
	enum names names;
	bool hidden;                /* not for people */
};

struct example {
	const char *line, *what;
};

struct command {
	const char *name;
	const char *summary;  /* one line, no full stop */
	const char *about;    /* paragraphs for its own help; may be NULL */
	const char *operands; /* "ZONE [COMMAND...]"; NULL: none */
	size_t min, max;      /* number of operands; max SIZE_MAX: any */
	size_t end_after;     /* after this many operands everything else is an operand too; 0: options may come anywhere */
	enum names names;     /* what the first operand is */
	const struct opt *options;
	size_t n_options;
	size_t args_size;
	/* The exit status, or a negative errno with the sentence in err. */
	int (*run)(struct cli *, const void *args, const struct strings *operands, struct edera_error *err);
	const struct example *examples; /* ended by line NULL; may be NULL */
	const struct command *const *sub; /* NULL-ended; NULL for a verb */
	bool hidden;
};

#define ANY SIZE_MAX
#define OPTIONS(array) .options = (array), .n_options = sizeof(array) / sizeof((array)[0])
#define AT(type, member) .offset = offsetof(type, member)

#endif
