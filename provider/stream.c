/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline of a pull. Four threads: one fetches and hashes blobs, one unpacks them, one hashes what comes out, and this
 * one reads the tar and feeds the packer (which has workers of its own). Layers go through one after another, newest first,
 * whatever order they arrive in; so the result is the same bytes each time, and memory is a handful of buffers. */
#include "pull.h"
#include "inflate.h"
#include "ring.h"
#include "tar.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_FIRST (6u << 20)  /* compressed bytes of the first layer of the row that may wait in memory */
#define MEMORY_OTHERS (2u << 20) /* of each other one */
#define SPOOL_MAX (64ull << 30)

struct stream {
	struct pull *pull;
	const uint32_t *order;
	uint32_t n;
	bool again;
	struct blob_pool pool;
	struct ring ring;
	struct fetch *fetches;   /* one a layer of the order */
	/* The unpacker's. */
	struct slot *room;
	uint32_t unpacking;
	uint64_t made;
	/* The packer's. */
	struct slot *held;
	bool layer_ended;
};

static void fail(struct stream *s, const struct edera_error *err) { pull_fail(s->pull, err); }

void stream_stop(struct stream *s)
{
	blob_pool_abort(&s->pool);
	ring_abort(&s->ring);
	s->pull->image.source->ops->abort(s->pull->image.source);
}

static void *run_fetch(void *user)
{
	struct stream *s = user;
	struct edera_error err = EDERA_ERROR_INIT;
	struct source *source = s->pull->image.source;
	_free_ struct fetch **list = calloc(s->n + 1, sizeof *list);

	for (uint32_t i = 0; list && i < s->n; i++)
		list[i] = &s->fetches[i];
	if (!list)
		err_errno(&err, -ENOMEM, "cannot fetch layers");
	else
		source->ops->fetch(source, list, s->n, &err);
	if (err.code)
		fail(s, &err);
	return NULL;
}

static int inflate_take(void *user, const uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	struct stream *s = user;

	return blob_take(&s->fetches[s->unpacking].blob, ret, ret_len, err);
}

static int inflate_room(void *user, uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	struct stream *s = user;
	int r = ring_reserve(&s->ring, &s->room);

	*ret = s->room->data;
	*ret_len = RING_SLOT_SIZE;
	return r;
}

static int too_large(const struct stream *s, struct edera_error *err)
{
	return err_set(err, -EFBIG, "the layers take more than the %llu bytes allowed when unpacked (--max-size)", (unsigned long long)s->pull->options->max_size);
}

static int inflate_made(void *user, size_t n, struct edera_error *err)
{
	struct stream *s = user;
	const struct fetch *f = &s->fetches[s->unpacking];

	s->room->len = n;
	s->room->layer = s->unpacking;
	ring_publish(&s->ring);
	s->made += n;
	if (s->pull->unpacked + s->made > s->pull->options->max_size && !s->again)
		return too_large(s, err);
	return inflate_check_ratio(s->made, f->what->size, err);
}

static int unpack_layer(struct stream *s, struct edera_error *err)
{
	struct inflate_io io = { .take = inflate_take, .room = inflate_room, .made = inflate_made, .user = s };
	struct fetch *f = &s->fetches[s->unpacking];
	const uint8_t *rest;
	size_t n;
	int r;

	s->made = 0;
	r = inflate_run(&io, err);
	while (!r && (r = blob_take(&f->blob, &rest, &n, err)) == 1)
		r = 0; /* what an unpacker did not want is part of the blob all the same */
	if (!r)
		r = ring_reserve(&s->ring, &s->room);
	if (r)
		return r == -ECANCELED ? r : err_wrap(err, "layer %s", f->what->digest);
	s->room->end = true;
	s->room->layer = s->unpacking;
	ring_publish(&s->ring);
	if (!s->again)
		s->pull->unpacked += s->made;
	return 0;
}

static void *run_unpack(void *user)
{
	struct stream *s = user;
	struct edera_error err = EDERA_ERROR_INIT;
	int r = 0;

	for (s->unpacking = 0; s->unpacking < s->n && !r; s->unpacking++)
		r = unpack_layer(s, &err);
	if (r && r != -ECANCELED)
		fail(s, &err);
	else
		ring_close(&s->ring);
	return NULL;
}

static int check_layer(struct stream *s, struct digest *d, uint32_t i, struct edera_error *err)
{
	const char *want = s->pull->image.config.diff_ids[s->order[i]];
	char found[DIGEST_MAX];

	if (digest_end(d, found))
		return err_set(err, -EIO, "cannot compute a digest");
	if (strcmp(found, want))
		return err_set(err, -EBADMSG, "the layer %s unpacks to something else than the image's config says: diff_id %s, not %s",
			       s->fetches[i].what->digest, found, want);
	return 0;
}

static void *run_hash(void *user)
{
	struct stream *s = user;
	_cleanup_(digest_free) struct digest d = DIGEST_INIT;
	struct edera_error err = EDERA_ERROR_INIT;
	uint32_t current = UINT32_MAX;
	struct slot *slot;
	int r;

	while ((r = ring_next(&s->ring, RING_HASH, &slot)) == 1) {
		if (slot->layer != current) {
			current = slot->layer;
			r = digest_begin(&d, s->pull->image.config.diff_ids[s->order[current]], &err);
		}
		if (r >= 0 && slot->len && digest_update(&d, slot->data, slot->len))
			r = err_set(&err, -EIO, "cannot compute a digest");
		if (r >= 0 && slot->end)
			r = check_layer(s, &d, current, &err);
		ring_release(&s->ring, RING_HASH);
		if (r < 0)
			break;
	}
	if (r < 0 && r != -ECANCELED)
		fail(s, &err);
	return NULL;
}

/* Input of the tar reader: one layer's slots. */
static int fill(void *user, const uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	struct stream *s = user;
	int r;

	*ret_len = 0;
	if (s->layer_ended)
		return 0;
	if (s->held)
		ring_release(&s->ring, RING_PACK);
	s->held = NULL;
	r = ring_next(&s->ring, RING_PACK, &s->held);
	if (r <= 0) {
		s->held = NULL;
		return r < 0 ? r : -ECANCELED;
	}
	s->layer_ended = s->held->end;
	*ret = s->held->data;
	*ret_len = s->held->len;
	return 0;
}

static void release(struct stream *s)
{
	if (s->held)
		ring_release(&s->ring, RING_PACK);
	s->held = NULL;
	s->layer_ended = false;
}

static int pack_file(struct stream *s, struct tar *tar, struct entry *e, const struct tar_entry *t, struct edera_error *err)
{
	struct sink *sink = s->pull->sink;
	const uint8_t *data;
	uint64_t n;
	uint32_t number;
	int r = sink->ops->begin(sink, t->size, &number, err);

	if (r)
		return r;
	while ((r = tar_data(tar, &data, &n, err)) == 1) {
		r = sink->ops->data(sink, data, n, err);
		if (r)
			return r;
	}
	if (!r)
		r = sink->ops->end(sink, err);
	if (!r)
		e->data = number;
	return r;
}

static bool wanted(struct pull *p, const struct entry *e)
{
	return !p->sink->ops->wants || p->sink->ops->wants(p->sink, &p->tree, e);
}

static int pack_layer(struct stream *s, struct tar *tar, uint32_t layer, struct edera_error *err)
{
	struct tree *tree = &s->pull->tree;
	struct tar_entry t;
	struct entry *e;
	int r;

	tree_begin_layer(tree, layer);
	while ((r = tar_next(tar, &t, err)) == 1) {
		if (tar_stored(tar) > s->pull->options->max_size) /* no need to unpack that much to know */
			return too_large(s, err);
		r = tree_add(tree, layer, &t, &e, err);
		if (r == 1)
			r = wanted(s->pull, e) ? pack_file(s, tar, e, &t, err) : 0;
		if (r)
			return r;
	}
	tree_end_layer(tree, layer);
	return r;
}

/* The second reading: the n-th file of the stream is the n-th file of the journal. */
static int pack_missing(struct stream *s, struct tar *tar, uint32_t layer, struct edera_error *err)
{
	struct tree *tree = &s->pull->tree;
	uint32_t at = tree->first[layer];
	struct tar_entry t;
	int r;

	while ((r = tar_next(tar, &t, err)) == 1) {
		struct entry *e;

		if (t.type != TAR_FILE || !tree_is_plain(t.path))
			continue;
		while (at < tree->end[layer] && tree_entry(tree, at)->type != ENTRY_FILE)
			at++;
		if (at == tree->end[layer])
			return err_set(err, -EBADMSG, "the layer is not the one that was read before");
		e = tree_entry(tree, at++);
		if (e->data == DATA_WANTED && (r = pack_file(s, tar, e, &t, err)))
			return r;
	}
	return r;
}

static int pack_layers(struct stream *s, struct edera_error *err)
{
	int r = 0;

	for (uint32_t i = 0; i < s->n && !r; i++) {
		struct fetch *f = &s->fetches[i];
		struct tar *tar = tar_new(fill, s);

		if (!tar)
			return err_errno(err, -ENOMEM, "cannot read a layer");
		__atomic_store_n(&f->unpack, FETCH_UNPACKING, __ATOMIC_RELAXED);
		r = s->again ? pack_missing(s, tar, s->order[i], err) : pack_layer(s, tar, s->order[i], err);
		release(s);
		tar_free(tar);
		if (r && r != -ECANCELED)
			err_wrap(err, "layer %s", f->what->digest);
		__atomic_store_n(&f->unpack, FETCH_UNPACKED, __ATOMIC_RELAXED);
	}
	return r;
}

static int run(struct stream *s, struct edera_error *err)
{
	void *(*const bodies[])(void *) = { run_fetch, run_unpack, run_hash };
	pthread_t threads[ARRAY_SIZE(bodies)];
	struct pull *p = s->pull;
	size_t n = 0;
	int r = 0;

	for (; n < ARRAY_SIZE(bodies) && !r; n++)
		r = -pthread_create(&threads[n], NULL, bodies[n], s);
	if (r) {
		n--;
		err_errno(err, r, "cannot start a thread");
	} else {
		r = pack_layers(s, err);
	}
	if (r && r != -ECANCELED)
		fail(s, err);
	while (n-- > 0)
		pthread_join(threads[n], NULL);
	pthread_mutex_lock(&p->lock);
	if (p->error.code) {
		r = p->error.code;
		if (err)
			*err = p->error;
	}
	p->stream = NULL;
	pthread_mutex_unlock(&p->lock);
	return r;
}

int stream_layers(struct pull *p, const uint32_t *order, uint32_t n, bool again, struct edera_error *err)
{
	struct stream s = { .pull = p, .order = order, .n = n, .again = again };
	int r;

	s.fetches = calloc(n ? n : 1, sizeof *s.fetches);
	r = s.fetches ? ring_init(&s.ring, err) : err_errno(err, -ENOMEM, "cannot fetch layers");
	blob_pool_init(&s.pool, p->options->spool_fd, SPOOL_MAX);
	for (uint32_t i = 0; i < n && !r; i++) {
		s.fetches[i].what = &p->image.manifest.layers[order[i]];
		s.fetches[i].phase = FETCH_WAITING;
		s.fetches[i].here = p->image.ref.kind != ORIGIN_REGISTRY;
		blob_init(&s.fetches[i].blob, &s.pool, i ? MEMORY_OTHERS : MEMORY_FIRST);
	}
	if (!r) {
		bool dead;

		pthread_mutex_lock(&p->lock);
		p->stream = &s;
		dead = p->error.code != 0;
		pthread_mutex_unlock(&p->lock);
		if (dead)
			stream_stop(&s);
		progress_layers(&p->progress, s.fetches, n);
		r = run(&s, err);
		progress_layers(&p->progress, NULL, 0);
	}
	for (uint32_t i = 0; s.fetches && i < n; i++) {
		blob_free(&s.fetches[i].blob);
		digest_free(&s.fetches[i].digest);
	}
	free(s.fetches);
	blob_pool_free(&s.pool);
	ring_free(&s.ring);
	return r;
}
