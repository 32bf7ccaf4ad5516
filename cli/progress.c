/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"
#include "cli/alloc.h"
#include "base/bars.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef Protect__Control__V1__OciImageProgress Report;
typedef Protect__Control__V1__OciImageProgressIndication Indication;

struct layer {
	char *id, *safe_id; /* safe: for a terminal */
	Protect__Control__V1__OciImageProgressLayerPhase phase;
	uint64_t current, total;
};

struct progress {
	enum progress_mode mode;
	char *title, *safe_title, *doing;
	Protect__Control__V1__OciImageProgressPhase phase, told; /* told: the last for which a line was printed */
	bool held; /* the line about layers */
	uint64_t current, total;
	struct layer *layers;
	size_t n_layers;
	struct bars *bars;
};

static void indication(const Indication *i, uint64_t *current, uint64_t *total)
{
	if (i && i->indication_case == PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_INDICATION__INDICATION_BAR) {
		*current = i->bar->current;
		*total = i->bar->total;
	} else if (i && i->indication_case == PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_INDICATION__INDICATION_COMPLETED && i->completed->total) {
		*current = *total = i->completed->total;
	}
}

static char *escaped(const char *text)
{
	struct buf b _buf_ = BUF_INIT;

	text_escape(&b, text);
	buf_puts(&b, "");
	return need(buf_steal(&b));
}

static struct layer *layer(struct progress *p, const char *id)
{
	for (size_t i = 0; i < p->n_layers; i++)
		if (!strcmp(p->layers[i].id, id))
			return &p->layers[i];
	p->layers = need(reallocarray(p->layers, p->n_layers + 1, sizeof *p->layers));
	p->layers[p->n_layers] = (struct layer){ .id = need(strdup(id)), .safe_id = escaped(id) };
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

#define LAYERS PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_PHASE__OCI_IMAGE_PROGRESS_PHASE_LAYER_DOWNLOAD

static void print_phase(struct progress *p, Protect__Control__V1__OciImageProgressPhase phase)
{
	struct buf out _buf_ = BUF_INIT;

	p->told = phase;
	text_escape(&out, p->title);
	buf_printf(&out, ": %s", phase_text(phase));
	if (phase == LAYERS && p->total) {
		buf_printf(&out, " (%zu, ", p->n_layers);
		text_size(&out, p->total);
		buf_puts(&out, ")");
	}
	buf_puts(&out, "\n");
	fwrite(out.data, 1, out.len, stderr);
}

/* That layers are downloaded is said once it is known how many. */
static void print_line(struct progress *p)
{
	bool wait = p->phase == LAYERS && !p->total;

	if (p->held && p->phase != LAYERS)
		print_phase(p, LAYERS);
	p->held = wait;
	if (p->phase && p->phase != p->told && !wait)
		print_phase(p, p->phase);
}

/* ---- bars ---- */

static enum bars_state layer_state(Protect__Control__V1__OciImageProgressLayerPhase phase)
{
	switch (phase) {
	case PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_LAYER_PHASE__OCI_IMAGE_PROGRESS_LAYER_PHASE_DOWNLOADING:
	case PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_LAYER_PHASE__OCI_IMAGE_PROGRESS_LAYER_PHASE_EXTRACTING:
		return BARS_RUNNING;
	case PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_LAYER_PHASE__OCI_IMAGE_PROGRESS_LAYER_PHASE_DOWNLOADED:
	case PROTECT__CONTROL__V1__OCI_IMAGE_PROGRESS_LAYER_PHASE__OCI_IMAGE_PROGRESS_LAYER_PHASE_EXTRACTED:
		return BARS_DONE;
	default:
		return BARS_WAITING;
	}
}

static void write_all(const struct buf *b)
{
	if (!b->len)
		return;
	fwrite(b->data, 1, b->len, stderr);
	fflush(stderr);
}

void progress_tick(struct progress *p)
{
	_free_ struct bars_layer *layers = need(calloc(p->n_layers + 1, sizeof *layers));
	struct bars_report report = { .title = p->safe_title, .doing = p->doing ? p->doing : phase_text(p->phase), .layers = layers };
	struct buf out _buf_ = BUF_INIT;
	struct bars_terminal terminal;

	if (p->mode != PROGRESS_BARS)
		return;
	for (size_t i = 0; i < p->n_layers; i++) {
		const struct layer *l = &p->layers[i];

		layers[i] = (struct bars_layer){ l->safe_id, layer_state(l->phase), layer_text(l->phase), l->current, l->total };
	}
	if (!p->doing) {
		report.n_layers = p->n_layers;
		report.current = p->current;
		report.total = p->total;
	}
	bars_terminal(STDERR_FILENO, &terminal);
	bars_draw(p->bars, &terminal, &report, uv_hrtime(), &out);
	write_all(&out);
}

/* ---- life ---- */

enum progress_mode progress_auto(enum progress_mode otherwise)
{
	struct bars_terminal t;

	return bars_terminal(STDERR_FILENO, &t) ? PROGRESS_BARS : otherwise;
}

struct progress *progress_new(enum progress_mode mode, const char *title)
{
	struct progress *p = need(calloc(1, sizeof *p));

	p->mode = mode;
	p->title = need(strdup(title));
	p->safe_title = escaped(title);
	p->bars = need(bars_new());
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

void progress_free(struct progress *p)
{
	struct buf out _buf_ = BUF_INIT;

	if (!p)
		return;
	bars_clear(p->bars, &out);
	write_all(&out);
	for (size_t i = 0; i < p->n_layers; i++) {
		free(p->layers[i].id);
		free(p->layers[i].safe_id);
	}
	free(p->layers);
	bars_free(p->bars);
	free(p->title);
	free(p->safe_title);
	free(p->doing);
	free(p);
}
