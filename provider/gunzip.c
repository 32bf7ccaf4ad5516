/* SPDX-License-Identifier: Apache-2.0 */
/* gzip: any number of members, with ISA-L where it is there, else with zlib. */
#include "unpack.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#ifdef HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif

#ifdef HAVE_ISAL
#define FLAG_CRC 2
#define FLAG_EXTRA 4
#define FLAG_NAME 8
#define FLAG_COMMENT 16
#define FLAGS_RESERVED 0xe0

struct gunzip {
	struct inflate_state state;
	uint32_t crc; /* of the header so far */
};

static int gunzip_begin(struct gunzip *g)
{
	isal_inflate_init(&g->state);
	g->state.crc_flag = ISAL_GZIP_NO_HDR_VER;
	return 0;
}

/* Another member follows. */
static void gunzip_again(struct gunzip *g)
{
	isal_inflate_reset(&g->state);
	g->state.crc_flag = ISAL_GZIP_NO_HDR_VER;
}

/* The next byte of a header. */
static int header_byte(struct gunzip *g, struct unpack *s, uint8_t *ret, struct edera_error *err)
{
	int r = unpack_input(s, err);

	if (r)
		return r;
	if (s->in_left == 0)
		return err_set(err, -EBADMSG, "its gzip data is cut short");
	*ret = *s->in++;
	s->in_left--;
	g->crc = (uint32_t)crc32(g->crc, ret, 1);
	return 0;
}

static int header_skip(struct gunzip *g, struct unpack *s, unsigned n, struct edera_error *err)
{
	uint8_t c;
	int r = 0;

	while (n-- > 0 && !r)
		r = header_byte(g, s, &c, err);
	return r;
}

static int header_text(struct gunzip *g, struct unpack *s, struct edera_error *err)
{
	uint8_t c;
	int r;

	do
		r = header_byte(g, s, &c, err);
	while (!r && c);
	return r;
}

static int header_u16(struct gunzip *g, struct unpack *s, unsigned *ret, struct edera_error *err)
{
	uint8_t low = 0, high = 0;
	int r = header_byte(g, s, &low, err);

	if (!r)
		r = header_byte(g, s, &high, err);
	*ret = low | (unsigned)high << 8;
	return r;
}

/* Of one member (RFC 1952). ISA-L's own reading of it loses its place between members and pieces of input. */
static int gunzip_header(struct gunzip *g, struct unpack *s, struct edera_error *err)
{
	uint8_t fixed[10];
	unsigned n, found;
	int r = 0;

	g->crc = 0;
	for (size_t i = 0; i < sizeof fixed && !r; i++)
		r = header_byte(g, s, &fixed[i], err);
	if (r)
		return r;
	if (memcmp(fixed, "\x1f\x8b\x08", 3) || fixed[3] & FLAGS_RESERVED)
		return err_set(err, -EBADMSG, "a header in its gzip data is damaged");
	if (fixed[3] & FLAG_EXTRA && !(r = header_u16(g, s, &n, err)))
		r = header_skip(g, s, n, err);
	if (!r && fixed[3] & FLAG_NAME)
		r = header_text(g, s, err);
	if (!r && fixed[3] & FLAG_COMMENT)
		r = header_text(g, s, err);
	n = g->crc & 0xffff;
	if (!r && fixed[3] & FLAG_CRC && !(r = header_u16(g, s, &found, err)) && found != n)
		r = err_set(err, -EBADMSG, "the checksum of a header in its gzip data is wrong");
	return r;
}

/* 1: the member ended. */
static int gunzip_step(struct gunzip *g, struct unpack *s)
{
	int r;

	g->state.next_in = (uint8_t *)s->in;
	g->state.avail_in = (uint32_t)s->in_left;
	g->state.next_out = s->out + s->out_used;
	g->state.avail_out = (uint32_t)(s->out_size - s->out_used);
	r = isal_inflate(&g->state);
	if (r < 0 || r > ISAL_OUT_OVERFLOW) /* of damaged data it may claim to have read more than there is */
		return r == ISAL_INCORRECT_CHECKSUM ? -EBADMSG : -EPROTO;
	s->in += s->in_left - g->state.avail_in;
	s->in_left = g->state.avail_in;
	s->out_used = s->out_size - g->state.avail_out;
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

static int gunzip_header(struct gunzip *g, struct unpack *s, struct edera_error *err) { return 0; }

static int gunzip_step(struct gunzip *g, struct unpack *s)
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

int gunzip(struct unpack *s, struct edera_error *err)
{
	_free_ struct gunzip *g = malloc(sizeof *g);
	int r;

	if (!g || gunzip_begin(g))
		return err_errno(err, -ENOMEM, "cannot unpack gzip");
	do {
		r = gunzip_header(g, s, err);
		if (r)
			break;
		do {
			r = unpack_input(s, err);
			if (!r)
				r = unpack_room(s, err);
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
		r = unpack_again(s, 0x1f, "gzip", err);
		if (r == 1)
			gunzip_again(g);
	} while (r == 1);
out:
	gunzip_end(g);
	return r;
}
