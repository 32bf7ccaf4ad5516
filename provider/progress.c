/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include "interrupt.h"
#include "io.h"
#include "registry.h"
#include "base/bars.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const phase_names[] = {
	[PHASE_STARTED] = "started", [PHASE_RESOLVING] = "resolving", [PHASE_RESOLVED] = "resolved", [PHASE_CONFIG] = "config-download",
	[PHASE_LAYERS] = "layer-download", [PHASE_ASSEMBLE] = "assemble", [PHASE_PACK] = "pack", [PHASE_COMPLETE] = "complete",
};
static const char *const phase_sentences[] = {
	[PHASE_STARTED] = "", [PHASE_RESOLVING] = "resolving the reference", [PHASE_RESOLVED] = "", [PHASE_CONFIG] = "fetching the config",
	[PHASE_LAYERS] = "downloading layers", [PHASE_ASSEMBLE] = "merging layers", [PHASE_PACK] = "writing metadata", [PHASE_COMPLETE] = "complete",
};
static const char *const layer_names[] = {
	[FETCH_WAITING] = "waiting", [FETCH_RUNNING] = "downloading", [FETCH_DONE] = "downloaded", [FETCH_UNPACKING] = "extracting", [FETCH_UNPACKED] = "extracted",
};

int progress_line(json_object *o)
{
	_buf_ struct buf b = BUF_INIT;

	buf_puts(&b, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	buf_puts(&b, "\n");
	json_object_put(o);
	return b.failed ? -ENOMEM : io_write_all(STDOUT_FILENO, b.data, b.len);
}

static bool is_here(const struct fetch *f) { return __atomic_load_n(&f->here, __ATOMIC_RELAXED); }

/* A layer is unpacked while it arrives; so that one thing comes after the other, it is "extracting" when all of it has arrived. One that
 * is here is never "downloading". */
static int phase_of(const struct fetch *f)
{
	int fetched = __atomic_load_n(&f->phase, __ATOMIC_RELAXED), unpack = __atomic_load_n(&f->unpack, __ATOMIC_RELAXED);

	if (fetched == FETCH_DONE || (fetched == FETCH_RUNNING && is_here(f)))
		return unpack ? unpack : FETCH_DONE;
	return fetched < FETCH_WAITING ? FETCH_WAITING : fetched;
}

/* What is here counts as a whole. */
static uint64_t got_of(const struct fetch *f)
{
	return is_here(f) && phase_of(f) >= FETCH_DONE ? f->what->size : __atomic_load_n(&f->got, __ATOMIC_RELAXED);
}

/* "downloading layers (2, 63.1 MiB; 1 is here, 60.0 MiB)" */
static void put_layers(const struct progress *p, struct buf *out)
{
	uint64_t far = 0, near = 0;
	uint32_t n_near = 0;

	for (uint32_t i = 0; i < p->n_layers; i++) {
		bool here = is_here(&p->layers[i]);

		n_near += here;
		*(here ? &near : &far) += p->layers[i].what->size;
	}
	if (n_near < p->n_layers || !n_near) {
		buf_printf(out, "downloading layers (%u, ", p->n_layers - n_near);
		text_size(out, far);
	}
	if (n_near) {
		buf_printf(out, "%s%u %s here, ", n_near < p->n_layers ? "; " : "unpacking layers (", n_near, n_near == 1 ? "is" : "are");
		text_size(out, near);
	}
	buf_puts(out, ")");
}

static void show_json(struct progress *p)
{
	json_object *o = json_object_new_object(), *list = json_object_new_array();
	uint64_t current = 0, total = 0;

	json_object_object_add(o, "type", json_object_new_string("progress"));
	json_object_object_add(o, "phase", json_object_new_string(phase_names[p->phase]));
	for (uint32_t i = 0; i < p->n_layers; i++) {
		const struct fetch *f = &p->layers[i];
		json_object *l = json_object_new_object();

		json_object_object_add(l, "id", json_object_new_string(f->what->digest));
		json_object_object_add(l, "phase", json_object_new_string(layer_names[phase_of(f)]));
		json_object_object_add(l, "current", json_object_new_int64((int64_t)got_of(f)));
		json_object_object_add(l, "total", json_object_new_int64((int64_t)f->what->size));
		if (is_here(f))
			json_object_object_add(l, "here", json_object_new_boolean(true));
		json_object_array_add(list, l);
		current += got_of(f);
		total += f->what->size;
	}
	json_object_object_add(o, "current", json_object_new_int64((int64_t)current));
	json_object_object_add(o, "total", json_object_new_int64((int64_t)total));
	json_object_object_add(o, "layers", list);
	if (!p->broken)
		p->broken = progress_line(o);
	else
		json_object_put(o);
}

static enum bars_state state_of(const struct fetch *f)
{
	switch (phase_of(f)) {
	case FETCH_WAITING: return BARS_WAITING;
	case FETCH_RUNNING: return BARS_RUNNING;
	case FETCH_UNPACKING: return BARS_RUNNING;
	default: return BARS_DONE;
	}
}

static void show_bars(struct progress *p)
{
	struct bars_report r = { .title = p->title, .doing = phase_sentences[p->phase][0] ? phase_sentences[p->phase] : "starting" };
	struct bars_layer *layers = calloc(p->n_layers + 1, sizeof *layers);
	_buf_ struct buf out = BUF_INIT, doing = BUF_INIT;
	struct bars_terminal t;

	if (!layers)
		return;
	if (p->phase == PHASE_LAYERS && p->n_layers)
		put_layers(p, &doing);
	if (doing.len && !doing.failed)
		r.doing = (const char *)doing.data;
	r.layers = layers;
	r.n_layers = p->n_layers;
	for (uint32_t i = 0; i < p->n_layers; i++) {
		const struct fetch *f = &p->layers[i];

		layers[i] = (struct bars_layer){ f->what->digest, state_of(f), layer_names[phase_of(f)], got_of(f), f->what->size };
		r.current += layers[i].current;
		r.total += layers[i].total;
	}
	bars_terminal(STDERR_FILENO, &t);
	bars_draw(p->bars, &t, &r, (uint64_t)(now_seconds() * 1e9), &out);
	free(layers);
	if (!out.failed)
		(void)!io_write_all(STDERR_FILENO, out.data, out.len);
}

/* Bytes have come, so it is known of the most urgent layers whether they are here. */
static bool has_begun(const struct progress *p)
{
	for (uint32_t i = 0; i < p->n_layers; i++)
		if (got_of(&p->layers[i]))
			return true;
	return false;
}

/* Where nobody looks, standard error is for the one sentence that says what failed. */
static void show_line(struct progress *p, bool ended)
{
	_buf_ struct buf line = BUF_INIT;

	if (p->phase == p->shown || (p->phase == PHASE_LAYERS && !ended && !has_begun(p)))
		return;
	p->shown = p->phase;
	if (!phase_sentences[p->phase][0] || !isatty(STDERR_FILENO))
		return;
	if (p->phase == PHASE_LAYERS)
		put_layers(p, &line);
	else
		buf_puts(&line, phase_sentences[p->phase]);
	buf_puts(&line, "\n");
	if (!line.failed)
		(void)!io_write_all(STDERR_FILENO, line.data, line.len);
}

static void show(struct progress *p, bool ended)
{
	if (p->kind == PROGRESS_AUTO && !p->terminal) {
		show_line(p, ended);
		return;
	}
	p->shown = p->phase;
	if (p->kind == PROGRESS_JSON)
		show_json(p);
	else if (p->kind == PROGRESS_AUTO)
		show_bars(p);
}

static void *report(void *user)
{
	struct progress *p = user;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += 100000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		while (!p->stop && pthread_cond_timedwait(&p->changed, &p->lock, &until) == 0)
			;
		if (!p->stop && (p->layers || p->terminal || p->phase != p->shown))
			show(p, false);
		if (p->deadline > 0 && now_seconds() > p->deadline) {
			p->deadline = 0;
			p->expired(p->user);
		}
		if (interrupt_caught() && p->interrupted)
			p->interrupted(p->user);
		if (p->broken && p->unheard)
			p->unheard(p->user, p->broken);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int progress_start(struct progress *p, const struct options *o, struct edera_error *err)
{
	pthread_condattr_t attr;
	_buf_ struct buf title = BUF_INIT;
	struct bars_terminal terminal;
	int r;

	text_escape(&title, o->reference);
	p->title = buf_steal(&title);
	p->bars = bars_new();
	if (!p->title || !p->bars)
		return err_errno(err, -ENOMEM, "cannot report progress");
	p->kind = o->progress;
	p->terminal = p->kind == PROGRESS_AUTO && bars_terminal(STDERR_FILENO, &terminal);
	p->phase = PHASE_STARTED;
	p->deadline = o->timeout ? now_seconds() + o->timeout : 0;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	r = pthread_create(&p->thread, NULL, report, p);
	if (r)
		return err_errno(err, -r, "cannot start a thread");
	p->running = true;
	return 0;
}

void progress_phase(struct progress *p, enum phase phase)
{
	pthread_mutex_lock(&p->lock);
	p->phase = phase;
	if (p->kind == PROGRESS_JSON || !p->terminal)
		show(p, false);
	pthread_mutex_unlock(&p->lock);
}

void progress_layers(struct progress *p, struct fetch *layers, uint32_t n)
{
	pthread_mutex_lock(&p->lock);
	if (!layers && p->layers)
		show(p, true); /* how it ended */
	p->layers = layers;
	p->n_layers = layers ? n : 0;
	if (layers && p->kind == PROGRESS_JSON)
		show(p, false);
	pthread_mutex_unlock(&p->lock);
}

void progress_stop(struct progress *p)
{
	_buf_ struct buf out = BUF_INIT;

	if (p->running) {
		pthread_mutex_lock(&p->lock);
		p->stop = true;
		pthread_cond_signal(&p->changed);
		pthread_mutex_unlock(&p->lock);
		pthread_join(p->thread, NULL);
		p->running = false;
		bars_clear(p->bars, &out);
		if (p->terminal && p->phase == PHASE_COMPLETE)
			buf_printf(&out, "%s: complete\n", p->title);
		(void)!io_write_all(STDERR_FILENO, out.data, out.len);
	}
	bars_free(p->bars);
	p->bars = NULL;
	free(p->title);
	p->title = NULL;
}
