/* SPDX-License-Identifier: Apache-2.0 */
/* bzip2 and xz: few images have them. */
#include "unpack.h"
#include "base/cleanup.h"

#include <bzlib.h>
#include <lzma.h>

#define XZ_MEMORY_MAX ((1u << INFLATE_WINDOW_LOG_MAX) + (1u << 20))

/* One stream of a bzip2 file. 1: it ended. */
static int bunzip2_step(bz_stream *b, struct unpack *s, struct edera_error *err)
{
	bool dry;
	unsigned room;
	int r = unpack_input(s, err);

	if (!r)
		r = unpack_room(s, err);
	if (r)
		return r;
	dry = s->in_left == 0;
	room = (unsigned)(s->out_size - s->out_used);
	b->next_in = (char *)s->in;
	b->avail_in = (unsigned)s->in_left;
	b->next_out = (char *)s->out + s->out_used;
	b->avail_out = room;
	r = BZ2_bzDecompress(b);
	s->in += s->in_left - b->avail_in;
	s->in_left = b->avail_in;
	s->out_used = s->out_size - b->avail_out;
	if (r == BZ_STREAM_END)
		return 1;
	if (r != BZ_OK)
		return err_set(err, -EBADMSG, "its bzip2 data is damaged");
	return dry && b->avail_out == room ? err_set(err, -EBADMSG, "its bzip2 data is cut short") : 0;
}

int bunzip2(struct unpack *s, struct edera_error *err)
{
	int r;

	do {
		bz_stream b = { 0 };

		if (BZ2_bzDecompressInit(&b, 0, 0) != BZ_OK)
			return err_errno(err, -ENOMEM, "cannot unpack bzip2");
		do
			r = bunzip2_step(&b, s, err);
		while (r == 0);
		BZ2_bzDecompressEnd(&b);
		if (r == 1)
			r = unpack_again(s, 'B', "bzip2", err);
	} while (r == 1);
	return r;
}

static int xz_failed(lzma_ret code, struct edera_error *err)
{
	switch (code) {
	case LZMA_MEMLIMIT_ERROR:
		return err_set(err, -E2BIG, "its xz data needs a window larger than the %d MiB allowed", 1 << (INFLATE_WINDOW_LOG_MAX - 20));
	case LZMA_MEM_ERROR:
		return err_errno(err, -ENOMEM, "cannot unpack xz");
	case LZMA_BUF_ERROR:
		return err_set(err, -EBADMSG, "its xz data is cut short");
	default:
		return err_set(err, -EBADMSG, "its xz data is damaged");
	}
}

int unxz(struct unpack *s, struct edera_error *err)
{
	_cleanup_(lzma_end) lzma_stream x = LZMA_STREAM_INIT;
	lzma_ret code = lzma_stream_decoder(&x, XZ_MEMORY_MAX, LZMA_CONCATENATED);

	while (code == LZMA_OK) {
		int r = unpack_input(s, err);

		if (!r)
			r = unpack_room(s, err);
		if (r)
			return r;
		x.next_in = s->in;
		x.avail_in = s->in_left;
		x.next_out = s->out + s->out_used;
		x.avail_out = s->out_size - s->out_used;
		code = lzma_code(&x, s->in_left == 0 ? LZMA_FINISH : LZMA_RUN);
		s->in = x.next_in;
		s->in_left = x.avail_in;
		s->out_used = s->out_size - x.avail_out;
	}
	return code == LZMA_STREAM_END ? 0 : xz_failed(code, err);
}
