/* SPDX-License-Identifier: Apache-2.0 */
/* How far a pull is, on a terminal: a line for the whole, and one for each layer that there is room for. It draws into a buffer;
 * the caller writes that to the terminal. The cursor stands below what is drawn, and is never hidden. */
#ifndef BASE_BARS_H
#define BASE_BARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

struct bars_terminal {
	unsigned rows, columns;
	bool utf8;
};

enum bars_state { BARS_WAITING, BARS_RUNNING, BARS_DONE };

struct bars_layer {
	const char *digest;
	enum bars_state state;
	const char *word; /* said where there is no bar: "extracting" */
	uint64_t current, total; /* bytes; total 0: not known */
};

struct bars_report {
	const char *title; /* safe for a terminal, as all text here */
	const char *doing;
	uint64_t current, total;
	const struct bars_layer *layers; /* the same ones in the same order in every report */
	size_t n_layers;
};

struct bars;

/* What the terminal at fd is like now. False where it is none, or one without a cursor that can be moved: ret is a guess then. */
bool bars_terminal(int fd, struct bars_terminal *ret);
struct bars *bars_new(void); /* NULL without memory */
void bars_free(struct bars *);
/* Draws over what it drew before; nothing in the first moments, as much is over by then, and nothing too soon after the last time. */
void bars_draw(struct bars *, const struct bars_terminal *, const struct bars_report *, uint64_t now_ns, struct buf *out);
void bars_clear(struct bars *, struct buf *out); /* takes away what was drawn */

#endif
