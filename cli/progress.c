/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "cli/image/image.h"
#include "cli/terminal.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define MAX_ROWS 16       /* layers shown at once */
#define DRAW_NS 80000000u /* between two frames */
#define RATE_NS 250000000u

typedef Protect__Control__V1__OciImageProgress Report;
typedef Protect__Control__V1__OciImageProgressIndication Indication;

struct rate {
	uint64_t at, bytes;
	double per_second;
};

struct layer {
	char *id;
	Protect__Control__V1__OciImageProgressLayerPhase phase;
	uint64_t current, total;
	struct rate rate;
};

struct progress {
	enum progress_mode mode;
	char *title, *doing;
	Protect__Control__V1__OciImageProgressPhase phase, told; /* told: the last for which a line was printed */
	uint64_t current, total;
	struct rate rate;
	struct layer *layers;
	size_t n_layers;
	unsigned drawn; /* lines on the screen */
	unsigned spin;
	uint64_t last_draw;
};

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

static void indication(const Indication *i, uint64_t *current, uint64_t *total)
{
	if (i && i->indication_case == PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_INDICATION__INDICATION_BAR) {
		*current = i->bar->current;
		*total = i->bar->total;
	} else if (i && i->indication_case == PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_INDICATION__INDICATION_COMPLETED && i->completed->total) {
		*current = *total = i->completed->total;
	}
}

static struct layer *layer(struct progress *p, const char *id)
{
	for (size_t i = 0; i < p->n_layers; i++)
		if (!strcmp(p->layers[i].id, id))
			return &p->layers[i];
	p->layers = need(reallocarray(p->layers, p->n_layers + 1, sizeof *p->layers));
	p->layers[p->n_layers] = (struct layer){ .id = need(strdup(id)) };
	return &p->layers[p->n_layers++];
}

static void take(struct progress *p, const Report *r)
{
	uint64_t layers_current = 0, layers_total = 0;

	p->phase = r->phase;
	for (size_t i = 0; i < r->n_layers; i++) {
		struct layer *l = layer(p, r->layers[i]->id);

		l->phase = r->layers[i]->phase;
		indication(r->layers[i]->indication, &l->current, &l->total);
	}
	for (size_t i = 0; i < p->n_layers; i++) {
		layers_current += p->layers[i].current;
		layers_total += p->layers[i].total;
	}
	p->current = p->total = 0;
	indication(r->indication, &p->current, &p->total);
	if (!p->total && p->phase == PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_PHASE__OCI_IMAGE_PROGRESS_PHASE_LAYER_DOWNLOAD) {
		p->current = layers_current;
		p->total = layers_total;
	}
}

static const char *phase_text(Protect__Control__V1__OciImageProgressPhase phase)
{
	static const char *const texts[] = { "waiting", "starting", "resolving", "resolved", "fetching configuration", "downloading layers", "assembling", "packing", "complete" };

	return (unsigned)phase < ARRAY_SIZE(texts) ? texts[phase] : "working";
}

static const char *layer_text(Protect__Control__V1__OciImageProgressLayerPhase phase)
{
	static const char *const texts[] = { "waiting", "waiting", "downloading", "downloaded", "extracting", "done" };

	return (unsigned)phase < ARRAY_SIZE(texts) ? texts[phase] : "working";
}

/* ---- JSON and lines ---- */

static void enum_word_json(struct json_object *o, const char *key, const ProtobufCEnumDescriptor *d, int v)
{
	struct buf word _buf_ = BUF_INIT;

	format_enum_word(&word, d, v);
	for (char *c = (char *)word.data; c && *c; c++)
		if (*c == '_')
			*c = '-';
	json_object_object_add(o, key, json_object_new_string((const char *)word.data));
}

static void print_json(struct progress *p)
{
	struct json_object *o = json_object_new_object(), *layers = json_object_new_array();
	struct buf out _buf_ = BUF_INIT;

	json_object_object_add(o, "type", json_object_new_string("progress"));
	enum_word_json(o, "phase", &protect__control__v1__oci_image_progress_phase__descriptor, (int)p->phase);
	json_object_object_add(o, "current", json_object_new_uint64(p->current));
	json_object_object_add(o, "total", json_object_new_uint64(p->total));
	for (size_t i = 0; i < p->n_layers; i++) {
		struct json_object *l = json_object_new_object();

		json_object_object_add(l, "id", json_object_new_string(p->layers[i].id));
		enum_word_json(l, "phase", &protect__control__v1__oci_image_progress_layer_phase__descriptor, (int)p->layers[i].phase);
		json_object_object_add(l, "current", json_object_new_uint64(p->layers[i].current));
		json_object_object_add(l, "total", json_object_new_uint64(p->layers[i].total));
		json_object_array_add(layers, l);
	}
	json_object_object_add(o, "layers", layers);
	format_json(&out, o, false);
	buf_puts(&out, "\n");
	cli_print(&out);
	json_object_put(o);
}

static void print_line(struct progress *p)
{
	struct buf out _buf_ = BUF_INIT;

	if (p->phase == p->told || !p->phase)
		return;
	p->told = p->phase;
	format_escape(&out, p->title);
	buf_printf(&out, ": %s", phase_text(p->phase));
	if (p->phase == PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_PHASE__OCI_IMAGE_PROGRESS_PHASE_LAYER_DOWNLOAD && p->total) {
		buf_printf(&out, " (%zu, ", p->n_layers);
		image_size(&out, p->total);
		buf_puts(&out, ")");
	}
	buf_puts(&out, "\n");
	fwrite(out.data, 1, out.len, stderr);
}

/* ---- bars ---- */

/* One line of at most `columns` columns; what does not fit is cut. */
static void put_line(struct buf *out, const char *text, uint32_t columns)
{
	size_t width = 0;

	while (*text) {
		uint32_t c;
		size_t n = format_decode(text, &c);
		char one[5] = { 0 };

		if (!n)
			break;
		memcpy(one, text, n);
		width += format_width(one);
		if (width >= columns)
			break;
		buf_append(out, text, n);
		text += n;
	}
	buf_puts(out, "\033[K\n");
}

static void put_numbers(struct buf *b, uint64_t current, uint64_t total, const struct rate *rate)
{
	struct buf s _buf_ = BUF_INIT;

	image_size(&s, current);
	if (total) {
		buf_puts(&s, " / ");
		image_size(&s, total);
	}
	buf_printf(b, "%-22s", (const char *)s.data);
	if (rate->per_second < 1)
		return;
	buf_clear(&s);
	image_size(&s, (uint64_t)rate->per_second);
	buf_printf(b, " %s/s", (const char *)s.data);
}

static void put_bar(struct buf *b, uint64_t current, uint64_t total, unsigned width)
{
	unsigned full = total ? (unsigned)((double)(current < total ? current : total) / (double)total * width) : 0;

	buf_puts(b, "[");
	for (unsigned i = 0; i < width; i++)
		buf_puts(b, i < full ? "=" : i == full && full ? ">" : " ");
	buf_puts(b, "] ");
}

static void draw_layer(const struct layer *l, uint32_t columns, struct buf *out)
{
	const char *id = strchr(l->id, ':') ? strchr(l->id, ':') + 1 : l->id;
	struct buf line _buf_ = BUF_INIT, safe _buf_ = BUF_INIT;

	format_escape(&safe, id);
	buf_printf(&line, "  %-12.12s ", safe.data ? (const char *)safe.data : "");
	if (l->phase == PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_LAYER_PHASE__OCI_IMAGE_PROGRESS_LAYER_PHASE_DOWNLOADING) {
		if (columns > 70)
			put_bar(&line, l->current, l->total, columns - 60 < 30 ? columns - 60 : 30);
		put_numbers(&line, l->current, l->total, &l->rate);
	} else {
		buf_puts(&line, layer_text(l->phase));
	}
	put_line(out, (const char *)line.data, columns);
}

static bool is_active(const struct layer *l)
{
	return l->phase == PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_LAYER_PHASE__OCI_IMAGE_PROGRESS_LAYER_PHASE_DOWNLOADING ||
	       l->phase == PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_LAYER_PHASE__OCI_IMAGE_PROGRESS_LAYER_PHASE_EXTRACTING;
}

static unsigned draw_layers(const struct progress *p, uint32_t rows, uint32_t columns, struct buf *out)
{
	size_t room = rows > 4 ? rows - 3 : 1, shown = 0, active = 0;

	if (room > MAX_ROWS)
		room = MAX_ROWS;
	if (p->n_layers <= room) {
		for (size_t i = 0; i < p->n_layers; i++)
			draw_layer(&p->layers[i], columns, out);
		return (unsigned)p->n_layers;
	}
	for (size_t i = 0; i < p->n_layers; i++)
		active += is_active(&p->layers[i]);
	for (size_t i = 0; i < p->n_layers && shown + 1 < room; i++)
		if (is_active(&p->layers[i])) {
			draw_layer(&p->layers[i], columns, out);
			shown++;
		}
	if (p->n_layers > shown) {
		struct buf line _buf_ = BUF_INIT;

		buf_printf(&line, "  and %zu more layers%s", p->n_layers - shown, active > shown ? "" : ", waiting or done");
		put_line(out, (const char *)line.data, columns);
		shown++;
	}
	return (unsigned)shown;
}

void progress_render(struct progress *p, uint64_t now, uint32_t rows, uint32_t columns, struct buf *out)
{
	static const char *const spinner[] = { "⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏" };
	struct buf line _buf_ = BUF_INIT;
	unsigned lines = 1;

	for (size_t i = 0; i < p->n_layers; i++)
		measure(&p->layers[i].rate, now, p->layers[i].current);
	measure(&p->rate, now, p->current);
	if (p->drawn)
		buf_printf(out, "\r\033[%uA", p->drawn); /* an echoed ^C may have moved the cursor */
	buf_printf(&line, "%s ", spinner[p->spin++ % ARRAY_SIZE(spinner)]);
	format_escape(&line, p->title);
	buf_printf(&line, "  %s", p->doing ? p->doing : phase_text(p->phase));
	if (!p->doing && p->total) {
		buf_puts(&line, "  ");
		put_numbers(&line, p->current, p->total, &p->rate);
	}
	put_line(out, (const char *)line.data, columns);
	if (!p->doing)
		lines += draw_layers(p, rows, columns, out);
	buf_puts(out, "\033[J");
	p->drawn = lines;
}

static void write_all(const struct buf *b)
{
	fwrite(b->data, 1, b->len, stderr);
	fflush(stderr);
}

void progress_tick(struct progress *p)
{
	struct buf out _buf_ = BUF_INIT;
	uint32_t rows = 24, columns = 80;
	uint64_t now = uv_hrtime();

	if (p->mode != PROGRESS_BARS || now - p->last_draw < DRAW_NS)
		return;
	p->last_draw = now;
	terminal_size(&rows, &columns);
	progress_render(p, now, rows, columns, &out);
	write_all(&out);
}

/* ---- life ---- */

enum progress_mode progress_auto(enum progress_mode otherwise)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") ? PROGRESS_BARS : otherwise;
}

struct progress *progress_new(enum progress_mode mode, const char *title)
{
	struct progress *p = need(calloc(1, sizeof *p));

	p->mode = mode;
	p->title = need(strdup(title));
	return p;
}

void progress_update(struct progress *p, const Report *r)
{
	take(p, r);
	free(p->doing);
	p->doing = NULL;
	if (p->mode == PROGRESS_JSON)
		print_json(p);
	else if (p->mode == PROGRESS_LINES)
		print_line(p);
	else
		progress_tick(p);
}

void progress_say(struct progress *p, const char *what)
{
	free(p->doing);
	p->doing = need(strdup(what));
	progress_tick(p);
}

void progress_end(struct progress *p, const char *summary)
{
	struct buf out _buf_ = BUF_INIT;

	if (p->drawn)
		buf_printf(&out, "\r\033[%uA\033[J", p->drawn);
	p->drawn = 0;
	if (summary && (p->mode == PROGRESS_BARS || p->mode == PROGRESS_LINES)) {
		format_escape(&out, summary);
		buf_puts(&out, "\n");
	}
	if (out.len)
		write_all(&out);
}

void progress_free(struct progress *p)
{
	if (!p)
		return;
	progress_end(p, NULL);
	for (size_t i = 0; i < p->n_layers; i++)
		free(p->layers[i].id);
	free(p->layers);
	free(p->title);
	free(p->doing);
	free(p);
}
