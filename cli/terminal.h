/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal on stdin in raw mode, given back on every way out of the program. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

bool terminal_raw(void);    /* false where stdin is no terminal; calling it again renews the mode */
void terminal_restore(void);
bool terminal_size(uint32_t *ret_rows, uint32_t *ret_columns); /* of stdin's, stdout's or stderr's terminal */

#endif
