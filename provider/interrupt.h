/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl+C and its like, where the program is used by hand: noted, and acted upon where everything can be put in order. */
#ifndef PROVIDER_INTERRUPT_H
#define PROVIDER_INTERRUPT_H

#include <sys/types.h>

/* SIGINT, SIGTERM and SIGHUP, unless they are ignored. A second one, more than a second later, ends the program at once. */
void interrupt_catch(void);
void interrupt_forward(pid_t child); /* they are its as well from now on; 0: no more */
int interrupt_caught(void);          /* the first one, or 0 */

#endif
