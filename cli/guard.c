/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/guard.h"

#include <stdbool.h>
#include <string.h>

static void show(struct buf *out, uint8_t c)
{
	buf_printf(out, "\\x%02x", c);
}

/* ESC [ digits and semicolons m, or the two bytes of a C1 control in UTF-8: could what is held become one with c? */
static bool continues(const struct guard *g, uint8_t c)
{
	if (g->held[0] == 0xc2)
		return false;
	if (g->n == 1)
		return c == '[';
	return (c >= '0' && c <= '9') || c == ';';
}

static void release(struct guard *g, struct buf *out)
{
	/* ESC is what made it a command; the rest is text. */
	if (g->n)
		show(out, g->held[0]);
	buf_append(out, g->held + 1, g->n ? g->n - 1 : 0);
	g->n = 0;
}

static void step(struct guard *g, uint8_t c, struct buf *out)
{
	if (g->n && g->held[0] == 0xc2) {
		g->n = 0;
		if (c >= 0x80 && c < 0xa0) {
			show(out, 0xc2);
			show(out, c);
			return;
		}
		buf_append(out, "\xc2", 1);
	} else if (g->n) {
		if (c == 'm' && g->n >= 2) {
			buf_append(out, g->held, g->n);
			buf_append(out, "m", 1);
			g->n = 0;
			return;
		}
		if (g->n < GUARD_HELD && continues(g, c)) {
			g->held[g->n++] = c;
			return;
		}
		release(g, out);
	}
	if (c == 0x1b || c == 0xc2)
		g->held[g->n++] = c;
	else if ((c < 0x20 && !memchr("\n\r\t\b", c, 4)) || c == 0x7f)
		show(out, c);
	else
		buf_append(out, &c, 1);
}

void guard_filter(struct guard *g, const void *data, size_t n, struct buf *out)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < n; i++)
		step(g, p[i], out);
}
