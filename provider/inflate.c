/* SPDX-License-Identifier: Apache-2.0 */
#include "inflate.h"
#include "base/cleanup.h"

#include <archive.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>
#ifdef HAVE_ISAL
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif

/* The input in hand, and the output room. */
struct stream {
	const struct inflate_io *io;
	const uint8_t *in;
	size_t in_left;
	bool in_ended;
	uint8_t *out;
	size_t out_size, out_used;
};

/* Makes sure that there is input or that it has ended. */
static int more_input(struct stream *s, struct edera_error *err)
{
	while (s->in_left == 0 && !s->in_ended) {
		int r = s->io->take(s->io->user, &s->in, &s->in_left, err);

		if (r < 0)
			return r;
		s->in_ended = r == 0;
		if (s->in_ended)
			s->in_left = 0;
	}
	return 0;
}

static int flush(struct stream *s, struct edera_error *err)
{
	int r = s->out_used ? s->io->made(s->io->user, s->out_used, err) : 0;

	if (s->out_used)
		s->out = NULL;
	s->out_used = 0;
	return r;
}

static int more_room(struct stream *s, struct edera_error *err)
{
	int r;

	if (s->out && s->out_used < s->out_size)
		return 0;
	r = flush(s, err);
	return r ? r : s->out ? 0 : s->io->room(s->io->user, &s->out, &s->out_size, err);
}

static int store(struct stream *s, struct edera_error *err)
{
	for (;;) {
		int r = more_input(s, err);
		size_t n;

		if (r || s->in_left == 0)
			return r;
		r = more_room(s, err);
		if (r)
			return r;
		n = s->in_left < s->out_size - s->out_used ? s->in_left : s->out_size - s->out_used;
		memcpy(s->out + s->out_used, s->in, n);
		s->out_used += n;
		s->in += n;
		s->in_left -= n;
	}
}

#ifdef HAVE_ISAL
struct gunzip {
	struct inflate_state state;
};

static int gunzip_begin(struct gunzip *g)
{
	isal_inflate_init(&g->state);
	g->state.crc_flag = ISAL_GZIP;
	return 0;
}

/* Another member follows. */
static void gunzip_again(struct gunzip *g)
{
	isal_inflate_reset(&g->state);
	g->state.crc_flag = ISAL_GZIP;
}

/* 1: the member ended. */
static int gunzip_step(struct gunzip *g, struct stream *s)
{
	int r;

	g->state.next_in = (uint8_t *)s->in;
	g->state.avail_in = (uint32_t)s->in_left;
	g->state.next_out = s->out + s->out_used;
	g->state.avail_out = (uint32_t)(s->out_size - s->out_used);
	r = isal_inflate(&g->state);
	s->in += s->in_left - g->state.avail_in;
	s->in_left = g->state.avail_in;
	s->out_used = s->out_size - g->state.avail_out;
	if (r < 0 || r > ISAL_OUT_OVERFLOW)
		return r == ISAL_INCORRECT_CHECKSUM ? -EBADMSG : -EPROTO;
	return g->state.block_state == ISAL_BLOCK_FINISH;
}

static void gunzip_end(struct gunzip *g) {}
#else
struct gunzip {
	z_stream state;
};

static int gunzip_begin(struct gunzip *g)
{
	memset(&g->state, 0, sizeof g->state);
	return inflateInit2(&g->state, 15 + 16) == Z_OK ? 0 : -ENOMEM;
}

static void gunzip_again(struct gunzip *g) { inflateReset(&g->state); }

static int gunzip_step(struct gunzip *g, struct stream *s)
{
	int r;

	g->state.next_in = (uint8_t *)s->in;
	g->state.avail_in = (uInt)s->in_left;
	g->state.next_out = s->out + s->out_used;
	g->state.avail_out = (uInt)(s->out_size - s->out_used);
	r = inflate(&g->state, Z_NO_FLUSH);
	s->in += s->in_left - g->state.avail_in;
	s->in_left = g->state.avail_in;
	s->out_used = s->out_size - g->state.avail_out;
	if (r == Z_STREAM_END)
		return 1;
	return r == Z_OK || r == Z_BUF_ERROR ? 0 : -EPROTO;
}

static void gunzip_end(struct gunzip *g) { inflateEnd(&g->state); }
#endif

/* After a member: 1 another follows, 0 nothing but padding did. */
static int next_member(struct stream *s, struct edera_error *err)
{
	for (;;) {
		int r = more_input(s, err);

		if (r || s->in_left == 0)
			return r;
		if (*s->in == 0x1f)
			return 1;
		if (*s->in != 0)
			return err_set(err, -EBADMSG, "there is something that is not gzip after the end of its gzip data");
		s->in++;
		s->in_left--;
	}
}

static int gunzip(struct stream *s, struct edera_error *err)
{
	_free_ struct gunzip *g = malloc(sizeof *g);
	int r;

	if (!g || gunzip_begin(g))
		return err_errno(err, -ENOMEM, "cannot unpack gzip");
	do {
		do {
			r = more_input(s, err);
			if (!r)
				r = more_room(s, err);
			if (r)
				goto out;
			bool dry = s->in_left == 0;
			size_t before = s->out_used;

			r = gunzip_step(g, s);
			if (r < 0)
				r = err_set(err, -EBADMSG, r == -EBADMSG ? "its gzip checksum is wrong" : "its gzip data is damaged");
			else if (r == 0 && dry && s->out_used == before)
				r = err_set(err, -EBADMSG, "its gzip data is cut short");
			if (r < 0)
				goto out;
		} while (r == 0);
		r = next_member(s, err);
		if (r == 1)
			gunzip_again(g);
	} while (r == 1);
out:
	gunzip_end(g);
	return r;
}

static void free_dctx(ZSTD_DCtx **d) { ZSTD_freeDCtx(*d); }

static int unzstd(struct stream *s, struct edera_error *err)
{
	_cleanup_(free_dctx) ZSTD_DCtx *d = ZSTD_createDCtx();
	size_t left = 0; /* 0: between two frames */

	if (!d || ZSTD_isError(ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, INFLATE_WINDOW_LOG_MAX)))
		return err_errno(err, -ENOMEM, "cannot unpack zstd");
	for (;;) {
		ZSTD_inBuffer in;
		ZSTD_outBuffer out;
		int r = more_input(s, err);

		if (r)
			return r;
		if (s->in_left == 0 && left == 0)
			return 0;
		r = more_room(s, err);
		if (r)
			return r;
		in = (ZSTD_inBuffer){ s->in, s->in_left, 0 };
		out = (ZSTD_outBuffer){ s->out, s->out_size, s->out_used };
		left = ZSTD_decompressStream(d, &out, &in);
		if (ZSTD_isError(left) && ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge)
			return err_set(err, -E2BIG, "its zstd data needs a window larger than the %d MiB allowed", 1 << (INFLATE_WINDOW_LOG_MAX - 20));
		if (ZSTD_isError(left))
			return err_set(err, -EBADMSG, "its zstd data is damaged: %s", ZSTD_getErrorName(left));
		if (s->in_left == 0 && out.pos == s->out_used && left > 0)
			return err_set(err, -EBADMSG, "its zstd data is cut short");
		s->in += in.pos;
		s->in_left -= in.pos;
		s->out_used = out.pos;
	}
}

/* For libarchive: what is in hand first, then what comes. */
struct feed {
	struct stream *s;
	struct edera_error *err;
	int failed;
};

static la_ssize_t feed_read(struct archive *a, void *user, const void **ret)
{
	struct feed *f = user;
	size_t n;
	int r = more_input(f->s, f->err);

	if (r) {
		f->failed = r;
		archive_set_error(a, EIO, "no input");
		return -1;
	}
	*ret = f->s->in;
	n = f->s->in_left;
	f->s->in_left = 0;
	return (la_ssize_t)n;
}

static void free_archive(struct archive **a) { archive_read_free(*a); }

/* Rare ones, which libarchive reads. */
static int unpack_rare(struct stream *s, const char *name, int (*filter)(struct archive *), struct edera_error *err)
{
	_cleanup_(free_archive) struct archive *a = archive_read_new();
	struct feed f = { .s = s, .err = err };
	struct archive_entry *e;

	if (!a || filter(a) != ARCHIVE_OK || archive_read_support_format_raw(a) != ARCHIVE_OK)
		return err_set(err, -ENOTSUP, "it is compressed with %s, which libarchive cannot read here", name);
	if (archive_read_open(a, &f, NULL, feed_read, NULL) != ARCHIVE_OK || archive_read_next_header(a, &e) != ARCHIVE_OK)
		return f.failed ? f.failed : err_set(err, -EBADMSG, "its %s data is damaged: %.100s", name, archive_error_string(a));
	for (;;) {
		int r = more_room(s, err);
		la_ssize_t n;

		if (r)
			return r;
		n = archive_read_data(a, s->out + s->out_used, s->out_size - s->out_used);
		if (n < 0)
			return f.failed ? f.failed : err_set(err, -EBADMSG, "its %s data is damaged: %.100s", name, archive_error_string(a));
		if (n == 0)
			return 0;
		s->out_used += (size_t)n;
	}
}

static bool starts(const struct stream *s, const char *magic, size_t n) { return s->in_left >= n && memcmp(s->in, magic, n) == 0; }

static bool starts_zstd(const struct stream *s)
{
	return starts(s, "\x28\xb5\x2f\xfd", 4) || (s->in_left >= 4 && (s->in[0] & 0xf0) == 0x50 && memcmp(s->in + 1, "\x2a\x4d\x18", 3) == 0);
}

static bool starts_bzip2(const struct stream *s)
{
	return starts(s, "BZh", 3) && s->in_left >= 10 && (memcmp(s->in + 4, "1AY&SY", 6) == 0 || memcmp(s->in + 4, "\x17\x72\x45\x38\x50\x90", 6) == 0);
}

int inflate_run(const struct inflate_io *io, struct edera_error *err)
{
	struct stream s = { .io = io };
	int r = more_input(&s, err);

	if (r)
		return r;
	if (starts(&s, "\x1f\x8b", 2))
		r = gunzip(&s, err);
	else if (starts_zstd(&s))
		r = unzstd(&s, err);
	else if (starts_bzip2(&s))
		r = unpack_rare(&s, "bzip2", archive_read_support_filter_bzip2, err);
	else if (starts(&s, "\xfd" "7zXZ\0", 6))
		r = unpack_rare(&s, "xz", archive_read_support_filter_xz, err);
	else
		r = store(&s, err);
	return r ? r : flush(&s, err);
}
