/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include "io.h"
#include "registry.h"

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
	[PHASE_LAYERS] = "fetching and packing layers", [PHASE_ASSEMBLE] = "merging layers", [PHASE_PACK] = "writing metadata", [PHASE_COMPLETE] = "complete",
};
static const char *const layer_names[] = {
	[FETCH_WAITING] = "waiting", [FETCH_RUNNING] = "downloading", [FETCH_DONE] = "downloaded", [FETCH_UNPACKING] = "extracting", [FETCH_UNPACKED] = "extracted",
};

void progress_line(json_object *o)
{
	_buf_ struct buf b = BUF_INIT;

	buf_puts(&b, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	buf_puts(&b, "\n");
	json_object_put(o);
	if (!b.failed)
		(void)!io_write_all(STDOUT_FILENO, b.data, b.len);
}

static int phase_of(const struct fetch *f)
{
	int phase = __atomic_load_n(&f->phase, __ATOMIC_RELAXED);

	return phase < FETCH_WAITING ? FETCH_WAITING : phase;
}

static uint64_t got_of(const struct fetch *f) { return __atomic_load_n(&f->got, __ATOMIC_RELAXED); }

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
		json_object_array_add(list, l);
		current += got_of(f);
		total += f->what->size;
	}
	json_object_object_add(o, "current", json_object_new_int64((int64_t)current));
	json_object_object_add(o, "total", json_object_new_int64((int64_t)total));
	json_object_object_add(o, "layers", list);
	progress_line(o);
}

static const char *bytes_text(double n, char dst[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	int u = 0;

	while (n >= 1024 && u < 4) {
		n /= 1024;
		u++;
	}
	snprintf(dst, 32, u ? "%.1f %s" : "%.0f %s", n, units[u]);
	return dst;
}

static void show_bars(struct progress *p)
{
	_buf_ struct buf b = BUF_INIT;
	char a[32], c[32];
	uint64_t bytes = 0;
	unsigned lines = 0;
	double now = now_seconds();

	if (p->bars)
		buf_printf(&b, "\033[%uA", p->bars);
	for (uint32_t i = 0; i < p->n_layers; i++)
		bytes += got_of(&p->layers[i]);
	if (now - p->last_time > 0.01)
		p->rate += ((double)(bytes - p->last_bytes) / (now - p->last_time) - p->rate) * 0.3;
	p->last_time = now;
	p->last_bytes = bytes;
	for (uint32_t i = p->n_layers; i-- > 0 && lines < 20;) {
		const struct fetch *f = &p->layers[i];
		double part = f->what->size ? (double)got_of(f) / (double)f->what->size : 1;
		int filled = (int)(part * 30);

		buf_printf(&b, "\033[K  %.12s  [%.*s%.*s] %s of %s  %s\n", strchr(f->what->digest, ':') + 1, filled, "==============================", 30 - filled,
			   "                              ", bytes_text((double)got_of(f), a), bytes_text((double)f->what->size, c), layer_names[phase_of(f)]);
		lines++;
	}
	buf_printf(&b, "\033[K%s  %s/s\n", phase_sentences[p->phase], bytes_text(p->rate > 0 ? p->rate : 0, a));
	p->bars = lines + 1;
	if (!b.failed)
		(void)!io_write_all(STDERR_FILENO, b.data, b.len);
}

static void show(struct progress *p)
{
	bool changed = p->phase != p->shown;

	p->shown = p->phase;
	if (p->kind == PROGRESS_JSON)
		show_json(p);
	else if (p->kind == PROGRESS_AUTO && p->terminal && p->layers)
		show_bars(p);
	else if (p->kind == PROGRESS_AUTO && changed && phase_sentences[p->phase][0])
		fprintf(stderr, "%s\n", phase_sentences[p->phase]);
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
		if (!p->stop && (p->layers || p->phase != p->shown))
			show(p);
		if (p->deadline > 0 && now_seconds() > p->deadline) {
			p->deadline = 0;
			p->expired(p->user);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int progress_start(struct progress *p, const struct options *o, struct edera_error *err)
{
	pthread_condattr_t attr;
	int r;

	p->kind = o->progress;
	p->terminal = isatty(STDERR_FILENO);
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
		show(p);
	pthread_mutex_unlock(&p->lock);
}

void progress_layers(struct progress *p, struct fetch *layers, uint32_t n)
{
	pthread_mutex_lock(&p->lock);
	if (!layers && p->layers && (p->kind == PROGRESS_JSON || p->terminal))
		show(p); /* how it ended */
	p->layers = layers;
	p->n_layers = layers ? n : 0;
	p->last_time = now_seconds();
	if (layers && p->kind == PROGRESS_JSON)
		show(p);
	pthread_mutex_unlock(&p->lock);
}

void progress_stop(struct progress *p)
{
	if (!p->running)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	p->running = false;
}
