/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT, SIGTERM and SIGHUP while something must be cleaned up: they count in cli->interrupts, and the verb looks. A second one
 * ends the program at once. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "cli/cli.h"

int interrupts_catch(struct cli *, struct edera_error *);
/* Runs the loop until *flag is not zero or an interrupt has come; true in the second case. */
bool interrupts_or(struct cli *, const int *flag);
void interrupts_close(struct cli *);

#endif
