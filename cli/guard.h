/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of a zone or a workload on a terminal: text and colours pass, everything else that could command the terminal is shown as
 * \xNN in its place. A sequence may be cut anywhere between two calls. */
#ifndef CLI_GUARD_H
#define CLI_GUARD_H

#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

#define GUARD_HELD 24 /* longest colour sequence that passes */

struct guard {
	uint8_t held[GUARD_HELD]; /* the beginning of a sequence that is not whole yet */
	size_t n;
};

void guard_filter(struct guard *, const void *data, size_t n, struct buf *out);

#endif
