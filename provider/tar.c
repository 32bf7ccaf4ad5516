/* SPDX-License-Identifier: Apache-2.0 */
#include "tar.h"
#include "tar_header.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

struct tar {
	tar_fill fill;
	void *user;
	const uint8_t *at; /* the piece in hand */
	size_t left;
	bool input_ended;
	uint64_t offset; /* of the next byte, for messages */
	/* What is left of the current entry in the stream. */
	uint64_t stored, padding;
	/* Where the reader of a sparse file is. */
	uint64_t logical;
	size_t extent;
	uint64_t extent_done;
	bool done;
	uint32_t unknown;
	struct tar_meta meta;
	uint8_t block[TAR_BLOCK_SIZE];
};

struct tar *tar_new(tar_fill fill, void *user)
{
	struct tar *t = calloc(1, sizeof *t);

	if (!t)
		return NULL;
	t->fill = fill;
	t->user = user;
	return t;
}

void tar_free(struct tar *t)
{
	if (!t)
		return;
	tar_meta_free(&t->meta);
	free(t);
}

uint32_t tar_unknown_types(const struct tar *t) { return t->unknown; }

uint64_t tar_offset(const struct tar *t) { return t->offset; }

bool tar_sparse(const struct tar *t) { return t->meta.sparse; }

uint64_t tar_stored(const struct tar *t) { return t->stored; }

uint64_t tar_seek_over(struct tar *t, uint64_t at)
{
	uint64_t over;

	if (t->meta.sparse || t->stored <= t->left)
		return at;
	over = t->stored - t->left;
	t->offset += over;
	t->stored -= over;
	return at + over;
}

static int refill(struct tar *t, struct edera_error *err)
{
	int r;

	while (t->left == 0 && !t->input_ended) {
		r = t->fill(t->user, &t->at, &t->left, err);
		if (r < 0)
			return r;
		t->input_ended = t->left == 0;
	}
	return 0;
}

static int cut_short(struct tar *t, struct edera_error *err)
{
	return err_set(err, -EBADMSG, "the tar stream is cut short at byte %llu", (unsigned long long)t->offset);
}

/* Reads exactly n bytes. */
static int take(struct tar *t, void *dst, size_t n, struct edera_error *err)
{
	uint8_t *to = dst;

	while (n > 0) {
		int r = refill(t, err);
		size_t m;

		if (r)
			return r;
		if (t->left == 0)
			return cut_short(t, err);
		m = n < t->left ? n : t->left;
		memcpy(to, t->at, m);
		to += m;
		n -= m;
		t->at += m;
		t->left -= m;
		t->offset += m;
	}
	return 0;
}

static int skip(struct tar *t, uint64_t n, struct edera_error *err)
{
	while (n > 0) {
		int r = refill(t, err);
		size_t m;

		if (r)
			return r;
		if (t->left == 0)
			return cut_short(t, err);
		m = n < t->left ? (size_t)n : t->left;
		n -= m;
		t->at += m;
		t->left -= m;
		t->offset += m;
	}
	return 0;
}

/* Some builders leave even the padding of the last file out: then the stream ends here. */
static int skip_padding(struct tar *t, uint64_t n, struct edera_error *err)
{
	while (n > 0) {
		int r = refill(t, err);
		size_t m = n < t->left ? (size_t)n : t->left;

		if (r || m == 0)
			return r;
		n -= m;
		t->at += m;
		t->left -= m;
		t->offset += m;
	}
	return 0;
}

/* Builders leave anything from nothing to megabytes after the end of an archive; the digest covers it, we read over it. */
static int drain(struct tar *t, struct edera_error *err)
{
	for (;;) {
		int r = refill(t, err);

		if (r || t->left == 0)
			return r;
		t->offset += t->left;
		t->left = 0;
	}
}

/* 1: t->block holds a header. 0: the archive ended. */
static int next_block(struct tar *t, struct edera_error *err)
{
	int r = refill(t, err);

	if (r || t->left == 0)
		return r; /* no end marker: accepted */
	r = take(t, t->block, TAR_BLOCK_SIZE, err);
	if (r)
		return r;
	if (!tar_block_is_zero(t->block))
		return 1;
	r = refill(t, err);
	if (r || t->left == 0)
		return r; /* one end block only: accepted */
	r = take(t, t->block, TAR_BLOCK_SIZE, err);
	if (r)
		return r;
	if (!tar_block_is_zero(t->block))
		return err_set(err, -EBADMSG, "the tar stream goes on after a single end block, at byte %llu", (unsigned long long)t->offset);
	return drain(t, err);
}

/* The body of a header that describes the next one: read whole, padding included. */
static int special_body(struct tar *t, uint64_t size, struct buf *into, struct edera_error *err)
{
	int r;

	if (size > TAR_SPECIAL_MAX)
		return err_set(err, -E2BIG, "a tar header record of %llu bytes is larger than the %u allowed", (unsigned long long)size, TAR_SPECIAL_MAX);
	buf_clear(into);
	if (buf_reserve(into, (size_t)size))
		return err_errno(err, -ENOMEM, "cannot read a tar header");
	r = take(t, into->data, (size_t)size, err);
	if (r)
		return r;
	into->len = (size_t)size;
	into->data[size] = 0;
	return skip(t, tar_padding(size), err);
}

static int old_sparse_continuation(struct tar *t, struct edera_error *err)
{
	uint8_t block[TAR_BLOCK_SIZE];
	bool more = true;

	while (more) {
		int r = take(t, block, sizeof block, err);

		if (!r)
			r = tar_meta_sparse_block(&t->meta, block, &more, err);
		if (r)
			return r;
	}
	return 0;
}

/* PAX 1.0 keeps the map as text lines at the start of the file's data, padded to a block. */
static int sparse_map_in_data(struct tar *t, struct edera_error *err)
{
	uint8_t block[TAR_BLOCK_SIZE];
	struct tar_map map = { 0 };
	bool complete = false;

	t->meta.n_extents = 0;
	while (!complete) {
		int r;

		if (t->stored < TAR_BLOCK_SIZE)
			return err_set(err, -EBADMSG, "'%.200s': the map of a sparse file does not end", t->meta.path);
		r = take(t, block, sizeof block, err);
		if (r)
			return r;
		t->stored -= TAR_BLOCK_SIZE;
		r = tar_meta_sparse_text(&t->meta, &map, (const char *)block, sizeof block, &complete, err);
		if (r)
			return r;
	}
	return 0;
}

/* One header, with those that describe it. 1: an entry; 0: the end; 2: nothing for the caller, go on. */
static int read_entry(struct tar *t, struct tar_entry *ret, struct edera_error *err)
{
	struct tar_meta *m = &t->meta;
	struct buf *into;
	uint64_t size;
	int r;

	r = next_block(t, err);
	if (r <= 0)
		return r;
	r = tar_header_check(t->block, &size, err);
	if (r)
		return err_wrap(err, "the tar header at byte %llu", (unsigned long long)(t->offset - TAR_BLOCK_SIZE));
	switch (t->block[156]) {
	case 'g': /* global: nothing in it concerns an image */
		r = skip(t, size, err);
		if (!r)
			r = skip(t, tar_padding(size), err);
		return r ? r : 2;
	case 'x':
	case 'X':
	case 'L':
	case 'K':
		into = t->block[156] == 'L' ? &m->gnu_path : t->block[156] == 'K' ? &m->gnu_link : &m->pax_text;
		r = special_body(t, size, into, err);
		if (!r && into == &m->pax_text)
			r = tar_meta_pax(m, err);
		m->pending = true;
		return r ? r : 2;
	}
	r = tar_meta_entry(m, t->block, &size, ret, err);
	if (r < 0)
		return r;
	t->stored = size;
	t->padding = tar_padding(size);
	if (r > 0) { /* a type nobody knows */
		t->unknown++;
		r = skip(t, t->stored, err);
		if (!r)
			r = skip(t, t->padding, err);
		t->stored = t->padding = 0;
		tar_meta_reset(m);
		return r ? r : 2;
	}
	if (m->old_sparse_more)
		r = old_sparse_continuation(t, err);
	if (!r && m->sparse_in_data)
		r = sparse_map_in_data(t, err);
	if (!r && m->sparse)
		r = tar_meta_sparse_check(m, t->stored, err);
	return r ? r : 1;
}

int tar_next(struct tar *t, struct tar_entry *ret, struct edera_error *err)
{
	int r;

	if (t->done)
		return 0;
	r = skip(t, t->stored, err);
	if (!r)
		r = skip_padding(t, t->padding, err);
	if (r)
		return r;
	t->stored = t->padding = t->logical = t->extent_done = 0;
	t->extent = 0;
	tar_meta_reset(&t->meta);
	do
		r = read_entry(t, ret, err);
	while (r == 2);
	if (r == 0) {
		if (t->meta.pending)
			return err_set(err, -EBADMSG, "the tar stream ends after a header that describes another one");
		t->done = true;
	}
	if (r == 1)
		tar_meta_fill(&t->meta, t->stored, ret);
	return r;
}

/* A piece of at most `max` stored bytes. */
static int stored_piece(struct tar *t, uint64_t max, const uint8_t **ret, uint64_t *ret_len, struct edera_error *err)
{
	int r = refill(t, err);
	size_t m;

	if (r)
		return r;
	if (t->left == 0)
		return cut_short(t, err);
	m = max < t->left ? (size_t)max : t->left;
	*ret = t->at;
	*ret_len = m;
	t->at += m;
	t->left -= m;
	t->offset += m;
	t->stored -= m;
	return 1;
}

int tar_data(struct tar *t, const uint8_t **ret, uint64_t *ret_len, struct edera_error *err)
{
	struct tar_meta *m = &t->meta;
	struct tar_extent *e;
	int r;

	if (!m->sparse)
		return t->stored ? stored_piece(t, t->stored, ret, ret_len, err) : 0;
	while (t->extent < m->n_extents && t->extent_done == m->extents[t->extent].length && t->logical == m->extents[t->extent].offset + t->extent_done) {
		t->extent++;
		t->extent_done = 0;
	}
	e = t->extent < m->n_extents ? &m->extents[t->extent] : NULL;
	if (!e || t->logical < e->offset) {
		uint64_t hole = (e ? e->offset : m->real_size) - t->logical;

		*ret = NULL;
		*ret_len = hole;
		t->logical += hole;
		return hole > 0;
	}
	r = stored_piece(t, e->length - t->extent_done, ret, ret_len, err);
	if (r == 1) {
		t->extent_done += *ret_len;
		t->logical += *ret_len;
	}
	return r;
}
