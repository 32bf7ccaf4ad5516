/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>
#include "cli/args.h"

/* Help of the command parsed, made from the tree, wrapped to `width` columns. */
void help_print(FILE *, const struct parsed *, size_t width);

#endif
