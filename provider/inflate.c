/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#define RATIO_FROM (4ull << 30) /* below this, data may be as compressible as it likes */
#define RATIO_MAX 1100          /* gzip cannot do more than 1032 */

int unpack_input(struct unpack *s, struct edera_error *err)
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

static int flush(struct unpack *s, struct edera_error *err)
{
	int r = s->out_used ? s->io->made(s->io->user, s->out_used, err) : 0;

	if (s->out_used)
		s->out = NULL;
	s->out_used = 0;
	return r;
}

int unpack_room(struct unpack *s, struct edera_error *err)
{
	int r;

	if (s->out && s->out_used < s->out_size)
		return 0;
	r = flush(s, err);
	return r ? r : s->out ? 0 : s->io->room(s->io->user, &s->out, &s->out_size, err);
}

int unpack_again(struct unpack *s, uint8_t begins, const char *format, struct edera_error *err)
{
	for (;;) {
		int r = unpack_input(s, err);

		if (r || s->in_left == 0)
			return r;
		if (*s->in == begins)
			return 1;
		if (*s->in != 0)
			return err_set(err, -EBADMSG, "there is something that is not %s after the end of its %s data", format, format);
		s->in++;
		s->in_left--;
	}
}

static int store(struct unpack *s, struct edera_error *err)
{
	for (;;) {
		int r = unpack_input(s, err);
		size_t n;

		if (r || s->in_left == 0)
			return r;
		r = unpack_room(s, err);
		if (r)
			return r;
		n = s->in_left < s->out_size - s->out_used ? s->in_left : s->out_size - s->out_used;
		memcpy(s->out + s->out_used, s->in, n);
		s->out_used += n;
		s->in += n;
		s->in_left -= n;
	}
}

static void free_dctx(ZSTD_DCtx **d) { ZSTD_freeDCtx(*d); }

static int unzstd(struct unpack *s, struct edera_error *err)
{
	_cleanup_(free_dctx) ZSTD_DCtx *d = ZSTD_createDCtx();
	size_t left = 0; /* 0: between two frames */

	if (!d || ZSTD_isError(ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, INFLATE_WINDOW_LOG_MAX)))
		return err_errno(err, -ENOMEM, "cannot unpack zstd");
	for (;;) {
		ZSTD_inBuffer in;
		ZSTD_outBuffer out;
		int r = unpack_input(s, err);

		if (r)
			return r;
		if (s->in_left == 0 && left == 0)
			return 0;
		r = unpack_room(s, err);
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

static bool starts(const struct unpack *s, const char *magic, size_t n) { return s->in_left >= n && memcmp(s->in, magic, n) == 0; }

static bool starts_zstd(const struct unpack *s)
{
	return starts(s, "\x28\xb5\x2f\xfd", 4) || (s->in_left >= 4 && (s->in[0] & 0xf0) == 0x50 && memcmp(s->in + 1, "\x2a\x4d\x18", 3) == 0);
}

static bool starts_bzip2(const struct unpack *s)
{
	return starts(s, "BZh", 3) && s->in_left >= 10 && (memcmp(s->in + 4, "1AY&SY", 6) == 0 || memcmp(s->in + 4, "\x17\x72\x45\x38\x50\x90", 6) == 0);
}

static bool starts_gzip(const struct unpack *s) { return starts(s, "\x1f\x8b", 2); }
static bool starts_xz(const struct unpack *s) { return starts(s, "\xfd" "7zXZ\0", 6); }

bool inflate_needed(const uint8_t *start, size_t n)
{
	struct unpack s = { .in = start, .in_left = n };

	return starts_gzip(&s) || starts_zstd(&s) || starts_bzip2(&s) || starts_xz(&s);
}

int inflate_check_ratio(uint64_t made, uint64_t packed, struct edera_error *err)
{
	if (made <= RATIO_FROM || made / RATIO_MAX <= packed)
		return 0;
	return err_set(err, -EFBIG, "it unpacks to more than %d times its size, which nothing real does", RATIO_MAX);
}

int inflate_run(const struct inflate_io *io, struct edera_error *err)
{
	struct unpack s = { .io = io };
	int r = unpack_input(&s, err);

	if (r)
		return r;
	if (starts_gzip(&s))
		r = gunzip(&s, err);
	else if (starts_zstd(&s))
		r = unzstd(&s, err);
	else if (starts_bzip2(&s))
		r = bunzip2(&s, err);
	else if (starts_xz(&s))
		r = unxz(&s, err);
	else
		r = store(&s, err);
	return r ? r : flush(&s, err);
}
