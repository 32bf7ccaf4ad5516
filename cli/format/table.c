/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/format/format.h"
#include "cli/alloc.h"
#include "base/cleanup.h"

#include <stdlib.h>

struct grid {
	size_t n_columns, n_rows;
	struct buf *cells; /* row 0 is the header */
	size_t *widths;
};

static void rule(struct buf *b, const struct grid *g, const char *left, const char *line, const char *cross, const char *right)
{
	buf_puts(b, left);
	for (size_t c = 0; c < g->n_columns; c++) {
		if (c)
			buf_puts(b, cross);
		for (size_t i = 0; i < g->widths[c] + 2; i++)
			buf_puts(b, line);
	}
	buf_printf(b, "%s\n", right);
}

static const char *cell_text(const struct grid *g, size_t row, size_t column)
{
	const struct buf *b = &g->cells[row * g->n_columns + column];

	return b->data ? (const char *)b->data : "";
}

static void line(struct buf *b, const struct grid *g, size_t row, const struct column *columns, const void *message)
{
	static const char *const codes[] = { [COLOUR_GREEN] = "32", [COLOUR_YELLOW] = "33", [COLOUR_RED] = "31" };

	for (size_t c = 0; c < g->n_columns; c++) {
		const char *text = cell_text(g, row, c);
		enum colour colour = message && columns[c].colour ? columns[c].colour(message) : COLOUR_NONE;

		buf_puts(b, c ? "┆ " : "│ ");
		if (colour)
			buf_printf(b, "\033[%sm%s\033[0m", codes[colour], text);
		else
			buf_puts(b, text);
		buf_printf(b, "%*s", (int)(g->widths[c] - text_width(text) + 1), "");
	}
	buf_puts(b, "│\n");
}

static void fill(struct grid *g, size_t row, size_t column, const char *text)
{
	struct buf *cell = &g->cells[row * g->n_columns + column];
	size_t width;

	text_escape(cell, text);
	width = text_width(cell_text(g, row, column));
	if (width > g->widths[column])
		g->widths[column] = width;
}

void format_table(struct buf *b, const struct list_view *view, const void *const *rows, size_t n_rows, bool colours)
{
	const struct column *columns = view->columns;
	size_t n_columns = view->n_columns;
	struct grid g = { n_columns, n_rows + 1, need(calloc((n_rows + 1) * n_columns, sizeof *g.cells)), need(calloc(n_columns, sizeof *g.widths)) };

	for (size_t c = 0; c < n_columns; c++)
		fill(&g, 0, c, columns[c].title);
	for (size_t r = 0; r < n_rows; r++) {
		for (size_t c = 0; c < n_columns; c++) {
			struct buf raw _buf_ = BUF_INIT;

			columns[c].cell(rows[r], view->context, &raw);
			fill(&g, r + 1, c, raw.len ? (const char *)raw.data : columns[c].missing ? columns[c].missing : "");
		}
	}
	rule(b, &g, "┌", "─", "┬", "┐");
	line(b, &g, 0, columns, NULL);
	rule(b, &g, "╞", "═", "╪", "╡");
	for (size_t r = 0; r < n_rows; r++)
		line(b, &g, r + 1, columns, colours ? rows[r] : NULL);
	rule(b, &g, "└", "─", "┴", "┘");
	for (size_t i = 0; i < g.n_rows * g.n_columns; i++)
		buf_free(&g.cells[i]);
	free(g.cells);
	free(g.widths);
}
