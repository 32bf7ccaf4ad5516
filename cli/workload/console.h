/* SPDX-License-Identifier: Apache-2.0 */
/* This process's stdio as the console of a workload, until the workload ends. */
#ifndef CLI_WORKLOAD_CONSOLE_H
#define CLI_WORKLOAD_CONSOLE_H

#include "cli/cli.h"

struct console;

struct console *console_open(struct cli *, const char *workload_id, bool tty, struct edera_error *); /* the id is borrowed */
/* Returns the workload's exit status; 0 when Ctrl+] left it running; 128 + N after signal N. */
int console_run(struct console *, struct edera_error *);
void console_close(struct console *);

#endif
