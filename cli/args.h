/* SPDX-License-Identifier: Apache-2.0 */
/* From a command line to a verb with its arguments. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "cli/command.h"

#define ARGS_DEPTH 5 /* deepest path in the tree, the program's own name included */

struct global_args {
	const char *connection;
	bool help, version;
};

extern const struct opt global_options[];
extern const size_t n_global_options;

struct parsed {
	const struct command *path[ARGS_DEPTH]; /* root first */
	size_t depth;
	struct global_args global;
	void *args; /* of the verb, zeroed but for what was given and for defaults of choices; NULL for a group */
	struct strings operands;
};

/* 0, or -EINVAL with a sentence that says what is wrong and, where one can guess, what was meant. With --help or
 * --version anywhere before the operands of a command to run, nothing that is missing is an error. `ret` is filled as
 * far as it went and must be freed either way. Strings point into argv. */
int args_parse(const struct command *root, int argc, const char *const *argv, struct parsed *ret, struct edera_error *err);
void parsed_free(struct parsed *);

/* "protect zone launch" */
void args_path(const struct parsed *, char *dst, size_t size);
const struct command *args_find_sub(const struct command *, const char *name);
/* The option with that long name or letter, of the command or of all commands. */
const struct opt *args_find_long(const struct command *, const char *name, size_t len);
const struct opt *args_find_letter(const struct command *, char letter);

void strings_add(struct strings *, const char *);
void strings_free(struct strings *);

#endif
