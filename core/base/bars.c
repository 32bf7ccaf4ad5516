/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bars.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>

#define PATIENCE_NS 200000000u /* what is done by then is not worth a flicker */
#define DRAW_NS 80000000u      /* between two frames */
#define RATE_NS 250000000u
#define MAX_LAYERS 16          /* shown at once */
#define BAR_MAX 30
#define WIDE 60                /* columns from which there is room for numbers beside a bar */
#define NARROW 30              /* below, there is none for a bar */

struct rate {
	uint64_t at, bytes;
	double per_second;
};

struct bars {
	uint64_t since, last; /* of the first call, and of the last frame */
	unsigned drawn;       /* lines on the screen */
	unsigned spin;
	struct rate rate, *rates;
	size_t n_rates;
};

static bool is_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *v = getenv(names[i]), *charset = v ? strchr(v, '.') : NULL;

		if (v && *v)
			return charset && (!strncasecmp(charset, ".UTF-8", 6) || !strncasecmp(charset, ".UTF8", 5));
	}
	return false;
}

bool bars_terminal(int fd, struct bars_terminal *ret)
{
	const char *term = getenv("TERM");
	struct winsize ws;

	*ret = (struct bars_terminal){ 24, 80, is_utf8() };
	if (ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_row && ws.ws_col) {
		ret->rows = ws.ws_row;
		ret->columns = ws.ws_col;
	}
	return isatty(fd) && term && *term && strcmp(term, "dumb");
}

struct bars *bars_new(void)
{
	return calloc(1, sizeof(struct bars));
}

void bars_free(struct bars *b)
{
	if (b)
		free(b->rates);
	free(b);
}

static void measure(struct rate *r, uint64_t now, uint64_t bytes)
{
	uint64_t dt = now - r->at;
	double v;

	if (!r->at || bytes < r->bytes) {
		*r = (struct rate){ now, bytes, 0 };
		return;
	}
	if (dt < RATE_NS)
		return;
	v = (double)(bytes - r->bytes) * 1e9 / (double)dt;
	r->per_second = r->per_second > 0 ? r->per_second * 0.6 + v * 0.4 : v;
	r->at = now;
	r->bytes = bytes;
}

static void measure_all(struct bars *b, const struct bars_report *r, uint64_t now)
{
	if (r->n_layers > b->n_rates) {
		struct rate *more = reallocarray(b->rates, r->n_layers, sizeof *more);

		if (!more)
			return;
		memset(more + b->n_rates, 0, (r->n_layers - b->n_rates) * sizeof *more);
		b->rates = more;
		b->n_rates = r->n_layers;
	}
	for (size_t i = 0; i < r->n_layers; i++)
		measure(&b->rates[i], now, r->layers[i].current);
	measure(&b->rate, now, r->current);
}

/* One line, cut before the last column, where terminals differ in what they do next. */
static void put_line(struct buf *out, const struct buf *text, unsigned columns)
{
	const char *s = text->data ? (const char *)text->data : "";
	size_t width = 0;

	while (*s) {
		char one[5] = { 0 };
		uint32_t c;
		size_t n = text_decode(s, &c);

		if (!n)
			break;
		memcpy(one, s, n);
		width += text_width(one);
		if (width >= columns)
			break;
		buf_append(out, s, n);
		s += n;
	}
	buf_puts(out, "\033[K\n");
}

static void put_numbers(struct buf *b, uint64_t current, uint64_t total, const struct rate *rate)
{
	_buf_ struct buf s = BUF_INIT;

	text_size(&s, current);
	if (total) {
		buf_puts(&s, " / ");
		text_size(&s, total);
	}
	if (s.failed)
		return;
	buf_printf(b, "%-19s", (const char *)s.data);
	if (!rate || rate->per_second < 1)
		return;
	buf_puts(b, " ");
	text_size(b, (uint64_t)rate->per_second);
	buf_puts(b, "/s");
}

static unsigned share(uint64_t current, uint64_t total, unsigned of)
{
	return (unsigned)((double)(current < total ? current : total) / (double)total * of);
}

static void put_bar(struct buf *b, uint64_t current, uint64_t total, unsigned width)
{
	unsigned full = share(current, total, width);

	buf_puts(b, "[");
	for (unsigned i = 0; i < width; i++)
		buf_puts(b, i < full ? "=" : i == full && full ? ">" : " ");
	buf_puts(b, "] ");
}

static void draw_layer(const struct bars_layer *l, const struct rate *rate, unsigned columns, struct buf *out)
{
	const char *colon = strchr(l->digest, ':'), *id = colon ? colon + 1 : l->digest;
	_buf_ struct buf line = BUF_INIT;
	int digits = columns < NARROW ? 6 : 12;

	buf_printf(&line, "  %-*.*s ", digits, digits, id);
	if (l->state != BARS_RUNNING || (l->total && l->current >= l->total)) {
		buf_puts(&line, l->word);
	} else if (!l->total) {
		put_numbers(&line, l->current, 0, rate);
	} else if (columns >= WIDE) {
		put_bar(&line, l->current, l->total, columns - 49 < BAR_MAX ? columns - 49 : BAR_MAX);
		put_numbers(&line, l->current, l->total, rate);
	} else {
		if (columns >= NARROW)
			put_bar(&line, l->current, l->total, columns - 23 < BAR_MAX ? columns - 23 : BAR_MAX);
		buf_printf(&line, "%3u%%", share(l->current, l->total, 100));
	}
	put_line(out, &line, columns);
}

static void draw_others(const size_t others[3], unsigned columns, struct buf *out)
{
	static const struct { enum bars_state state; const char *word; } words[] = { { BARS_RUNNING, "running" }, { BARS_DONE, "done" }, { BARS_WAITING, "waiting" } };
	_buf_ struct buf line = BUF_INIT;
	const char *sign = ": ";

	buf_printf(&line, "  + %zu layers", others[0] + others[1] + others[2]);
	for (size_t i = 0; i < 3; i++) {
		_buf_ struct buf part = BUF_INIT;

		buf_printf(&part, "%s%zu %s", sign, others[words[i].state], words[i].word);
		if (!others[words[i].state] || line.len + part.len >= columns)
			continue;
		buf_append(&line, part.data, part.len);
		sign = ", ";
	}
	put_line(out, &line, columns);
}

/* All layers, or those at work and the number of the others. Lines drawn. */
static unsigned draw_layers(const struct bars *b, const struct bars_terminal *t, const struct bars_report *r, struct buf *out)
{
	unsigned room = t->rows > 3 ? t->rows - 3 : 0, shown = 0;
	size_t others[3] = { 0 };

	if (room > MAX_LAYERS)
		room = MAX_LAYERS;
	for (size_t i = 0; i < r->n_layers && room; i++) {
		if (r->n_layers <= room || (r->layers[i].state == BARS_RUNNING && shown + 1 < room)) {
			draw_layer(&r->layers[i], i < b->n_rates ? &b->rates[i] : NULL, t->columns, out);
			shown++;
		} else {
			others[r->layers[i].state]++;
		}
	}
	if (room && shown < r->n_layers) {
		draw_others(others, t->columns, out);
		shown++;
	}
	return shown;
}

/* The end of a title that fits: a reference tells more at its end. Empty where too little would be left. */
static const char *shorten(const char *title, size_t room)
{
	uint32_t c;

	if (room < 10)
		return "";
	while (text_width(title) + 3 > room) {
		size_t n = text_decode(title, &c);

		title += n ? n : 1;
	}
	return title;
}

static void draw_head(struct bars *b, const struct bars_terminal *t, const struct bars_report *r, struct buf *out)
{
	static const char *const braille[] = { "⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏" }, *const ascii[] = { "-", "\\", "|", "/" };
	size_t room = t->columns > 3 ? t->columns - 3 : 0, width = text_width(r->title), tail = strlen(r->doing) + 2;
	_buf_ struct buf line = BUF_INIT, numbers = BUF_INIT;

	b->spin++;
	buf_printf(&line, "%s ", t->utf8 ? braille[b->spin % ARRAY_SIZE(braille)] : ascii[b->spin % ARRAY_SIZE(ascii)]);
	if (r->total) {
		buf_puts(&numbers, "  ");
		put_numbers(&numbers, r->current, r->total, &b->rate);
		if (width + tail + numbers.len > room) {
			buf_clear(&numbers);
			buf_printf(&numbers, "  %u%%", share(r->current, r->total, 100));
		}
	}
	tail += numbers.len;
	if (width + tail <= room) {
		buf_printf(&line, "%s  ", r->title);
	} else {
		const char *end = shorten(r->title, room > tail ? room - tail : 0);

		buf_printf(&line, "%s%s%s", *end ? "..." : "", end, *end ? "  " : "");
		if (r->total && tail > room + 2) /* the words may be cut, the number not */
			buf_printf(&line, "%u%% ", share(r->current, r->total, 100));
	}
	buf_printf(&line, "%s%s", r->doing, numbers.data ? (const char *)numbers.data : "");
	put_line(out, &line, t->columns);
}

void bars_draw(struct bars *b, const struct bars_terminal *t, const struct bars_report *r, uint64_t now, struct buf *out)
{
	if (!b->since)
		b->since = now;
	measure_all(b, r, now);
	if (now - b->since < PATIENCE_NS || now - b->last < DRAW_NS || t->rows < 2)
		return;
	b->last = now;
	/* What a terminal that became narrower did to the lines cannot be known. Going up by no more lines than were drawn leaves, at
	 * worst, a piece of them standing; going up by more could take away what others wrote. */
	if (b->drawn)
		buf_printf(out, "\r\033[%uA", b->drawn); /* \r: an echoed ^C may have moved the cursor */
	draw_head(b, t, r, out);
	b->drawn = 1 + draw_layers(b, t, r, out);
	buf_puts(out, "\033[J");
}

void bars_clear(struct bars *b, struct buf *out)
{
	if (b->drawn)
		buf_printf(out, "\r\033[%uA\033[J", b->drawn);
	b->drawn = 0;
}
