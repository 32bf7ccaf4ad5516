/* SPDX-License-Identifier: Apache-2.0 */
#include "pull.h"
#include "io.h"
#include "packer.h"
#include "registry.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void pull_fail(struct pull *p, const struct edera_error *err)
{
	pthread_mutex_lock(&p->lock);
	if (!p->error.code) {
		p->error = *err;
		packer_abort(p->options->packer);
		if (p->stream)
			stream_stop(p->stream);
		else if (p->image.source)
			p->image.source->ops->abort(p->image.source);
	}
	pthread_mutex_unlock(&p->lock);
}

static void expired(void *user)
{
	struct pull *p = user;
	struct edera_error err = EDERA_ERROR_INIT;

	err_set(&err, -ETIMEDOUT, "%.300s: not complete after the %u seconds allowed (--timeout)", p->options->reference, p->options->timeout);
	pull_fail(p, &err);
}

static void interrupted(void *user)
{
	struct edera_error err = EDERA_ERROR_INIT;

	err_set(&err, -EINTR, "interrupted");
	pull_fail(user, &err);
}

static void unheard(void *user, int error)
{
	struct edera_error err = EDERA_ERROR_INIT;

	err_errno(&err, error, "cannot write to the standard output");
	pull_fail(user, &err);
}

void pull_free(struct pull *p)
{
	progress_stop(&p->progress);
	if (p->sink)
		p->sink->ops->free(p->sink);
	tree_free(&p->tree);
	image_free(&p->image);
}

static int make_sink(struct pull *p, struct edera_error *err)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	struct sink_options o = { .output_fd = p->options->output_fd, .store_fd = p->options->store_fd, .level = p->options->level,
				  .workers = cores < 1 ? 1 : cores > 32 ? 32 : (unsigned)cores, .max_files = p->options->max_entries, .packer = p->options->packer,
				  .max_size = p->options->max_size };

	switch (p->options->format) {
	case FORMAT_SQUASHFS:
		return sink_squashfs_new(&o, &p->sink, err);
	case FORMAT_EROFS:
	case FORMAT_TAR:
		return sink_tar_new(&o, &p->sink, err);
	default:
		o.max_file = p->options->max_file;
		return sink_directory_new(&o, &p->sink, err);
	}
}

/* Newest first. A layer that is in the image twice is read once, at its newest place: there it hides itself below. */
static int plan(struct pull *p, uint32_t *order, uint32_t *same_as, struct edera_error *err)
{
	const struct manifest *m = &p->image.manifest;
	uint64_t left = p->options->max_size;
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_layers; left -= m->layers[i++].size)
		if (m->layers[i].size > left)
			return err_set(err, -EFBIG, "the layers up to %s are larger, packed, than the %llu bytes that all may have unpacked (--max-size)", m->layers[i].digest,
				       (unsigned long long)p->options->max_size);
	for (uint32_t i = m->n_layers; i-- > 0;) {
		same_as[i] = i;
		for (uint32_t j = 0; j < n; j++)
			if (!strcmp(m->layers[order[j]].digest, m->layers[i].digest)) {
				same_as[i] = order[j];
				break;
			}
		if (same_as[i] == i)
			order[n++] = i;
		else if (strcmp(p->image.config.diff_ids[i], p->image.config.diff_ids[same_as[i]]))
			return err_set(err, -EBADMSG, "the image's config gives two diff_ids for the layer %s", m->layers[i].digest);
	}
	return (int)n;
}

/* Files that are alive but were left out because newer layers hide their path: hard links, mostly. */
static uint32_t mark_missing(struct pull *p, uint32_t *order)
{
	struct tree *t = &p->tree;
	uint32_t n = 0;

	for (uint32_t layer = t->n_layers; layer-- > 0;)
		for (uint32_t i = t->first[layer]; i < t->end[layer]; i++)
			if (tree_entry(t, i)->type == ENTRY_FILE && tree_entry(t, i)->data == DATA_WANTED) {
				order[n++] = layer;
				break;
			}
	return n;
}

static void want_live(struct pull *p)
{
	struct tree *t = &p->tree;

	for (uint32_t i = 0; i < t->nodes.count; i++) {
		struct entry *e = tree_inode(t, tree_node(t, i));

		if (e && e->type == ENTRY_FILE && e->data == DATA_MISSING && (!p->sink->ops->wants || p->sink->ops->wants(p->sink, t, e)))
			e->data = DATA_WANTED;
	}
}

static int pull_layers(struct pull *p, struct edera_error *err)
{
	uint32_t n = p->image.manifest.n_layers;
	_free_ uint32_t *order = calloc(n + 1, sizeof *order), *same_as = calloc(n + 1, sizeof *same_as);
	int r;

	if (!order || !same_as)
		return err_errno(err, -ENOMEM, "cannot fetch layers");
	r = plan(p, order, same_as, err);
	if (r < 0)
		return r;
	progress_phase(&p->progress, PHASE_LAYERS);
	r = stream_layers(p, order, (uint32_t)r, false, err);
	for (uint32_t i = n; i-- > 0 && !r;)
		if (same_as[i] != i)
			r = tree_repeat_layer(&p->tree, same_as[i], i, err);
	if (r)
		return r;
	progress_phase(&p->progress, PHASE_ASSEMBLE);
	r = merge_layers(&p->tree, err);
	if (r)
		return r;
	want_live(p);
	n = mark_missing(p, order);
	if (n)
		r = stream_layers(p, order, n, true, err);
	if (!r)
		progress_phase(&p->progress, PHASE_PACK);
	return r ? r : p->sink->ops->finish(p->sink, &p->tree, err);
}

static int pull_image(struct pull *p, struct edera_error *err)
{
	int r = tree_init(&p->tree, p->image.manifest.n_layers, p->options->max_entries, err);

	if (!r)
		r = make_sink(p, err);
	return r ? r : pull_layers(p, err);
}

/* Which disk is full, of what is known here by its name: all that a pull writes is on one. */
static void say_where(const struct pull *p, struct edera_error *err)
{
	const char *output = p->options->output;

	if (!err || !output || p->progress.broken || (err->code != -ENOSPC && err->code != -EDQUOT))
		return;
	struct edera_error said = *err;

	err_set(err, said.code, "%s ('%.300s')", said.msg, strcmp(output, "-") ? output : io_temporary_directory());
}

int pull_run(struct pull *p, const struct options *o, struct edera_error *err)
{
	int r;

	*p = (struct pull){ .options = o, .lock = PTHREAD_MUTEX_INITIALIZER, .error = EDERA_ERROR_INIT };
	p->progress.expired = expired;
	p->progress.interrupted = interrupted;
	p->progress.unheard = unheard;
	p->progress.user = p;
	r = progress_start(&p->progress, o, err);
	if (!r)
		r = image_resolve(&p->image, o, &p->progress, err);
	for (int i = 0; !r && o->have[i]; i++)
		p->cached |= !strcmp(o->have[i], p->image.digest);
	if (!r && !p->cached)
		r = pull_image(p, err);
	pthread_mutex_lock(&p->lock);
	if (p->error.code) { /* a deadline, say */
		r = p->error.code;
		*err = p->error;
	}
	pthread_mutex_unlock(&p->lock);
	if (!r)
		progress_phase(&p->progress, PHASE_COMPLETE);
	progress_stop(&p->progress);
	if (r)
		say_where(p, err);
	return r;
}
