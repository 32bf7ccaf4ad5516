/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT, SIGTERM and SIGHUP while something must be cleaned up: cli->interrupted is set, and the verb looks. Another one a second
 * later ends the program at once; sooner it is likely the same one, sent to the process and to its group. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "cli/cli.h"

int interrupts_catch(struct cli *, struct edera_error *);
/* Runs the loop until *flag is not zero or an interrupt has come; true in the second case. */
bool interrupts_or(struct cli *, const int *flag);
/* What follows is the cleaning up: waits are no longer cut short by the interrupt there was. */
void interrupts_done(struct cli *);
void interrupts_close(struct cli *);

#endif
