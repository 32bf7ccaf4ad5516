/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking of layers in pieces of every size: where a piece of input ends, or the room for output, makes no difference. */
#include "inflate.h"
#include "base/buf.h"
#include "base/cleanup.h"

#include <CUnit/Basic.h>
#include <bzlib.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

struct feed {
	const struct buf *in;
	size_t at, piece, room;
	uint8_t *given, *out; /* of their exact sizes, so that a sanitizer sees who looks beyond */
	struct buf made;
};

static int take(void *user, const uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	struct feed *f = user;
	size_t n = f->at == 0 && f->piece < 16 ? 16 : f->piece;

	if (n > f->in->len - f->at)
		n = f->in->len - f->at;
	free(f->given);
	f->given = malloc(n + 1);
	memcpy(f->given, f->in->data + f->at, n);
	f->at += n;
	*ret = f->given;
	*ret_len = n;
	return n > 0;
}

static int room(void *user, uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	struct feed *f = user;

	free(f->out);
	*ret = f->out = malloc(f->room);
	*ret_len = f->room;
	return 0;
}

static int made(void *user, size_t n, struct edera_error *err)
{
	struct feed *f = user;

	buf_append(&f->made, f->out, n);
	return 0;
}

static int unpack(const struct buf *in, size_t piece, size_t space, struct buf *ret)
{
	struct feed f = { .in = in, .piece = piece, .room = space };
	struct inflate_io io = { .take = take, .room = room, .made = made, .user = &f };
	int r = inflate_run(&io, NULL);

	free(f.given);
	free(f.out);
	*ret = f.made;
	return r;
}

/* One member, with whatever its header may hold. */
static void member(struct buf *to, const uint8_t *data, size_t n, uint8_t flags)
{
	static const uint8_t extra[] = "\x05\0abcde";
	uint8_t fixed[10] = { 0x1f, 0x8b, 8, flags }, packed[8192];
	size_t begin = to->len;
	z_stream z = { 0 };
	uint32_t sum, size = (uint32_t)n;

	buf_append(to, fixed, sizeof fixed);
	if (flags & 4)
		buf_append(to, extra, 7);
	if (flags & 8)
		buf_append(to, "name", 5);
	if (flags & 16)
		buf_append(to, "comment", 8);
	sum = (uint32_t)crc32(0, to->data + begin, (uInt)(to->len - begin));
	if (flags & 2)
		buf_append(to, &sum, 2);
	deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
	z.next_in = (uint8_t *)data;
	z.avail_in = (uInt)n;
	z.next_out = packed;
	z.avail_out = sizeof packed;
	CU_ASSERT_EQUAL(deflate(&z, Z_FINISH), Z_STREAM_END);
	buf_append(to, packed, z.total_out);
	deflateEnd(&z);
	sum = (uint32_t)crc32(0, data, (uInt)n);
	buf_append(to, &sum, 4);
	buf_append(to, &size, 4);
}

#define N 700
static uint8_t text[N];

static void make_text(void)
{
	uint32_t x = 1;

	for (size_t i = 0; i < N; i++) {
		x = x * 1103515245 + 12345;
		text[i] = (uint8_t)(x >> 16 & (i % 3 ? 0x0f : 0xff));
	}
}

/* In pieces of every size it gives `want`; cut anywhere it is refused, but where a whole piece ended. */
static void check(const struct buf *packed, const struct buf *want, const size_t *whole, size_t n_whole)
{
	static const size_t rooms[] = { 1, 2, 7, 100, 131072 };

	for (size_t piece = 1; piece < packed->len + 2; piece++)
		for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
			_buf_ struct buf got = BUF_INIT;

			CU_ASSERT_EQUAL(unpack(packed, piece, rooms[i], &got), 0);
			CU_ASSERT(got.len == want->len && memcmp(got.data, want->data, got.len) == 0);
		}
	for (size_t cut = 16; cut < packed->len; cut++) {
		struct buf head = { .data = packed->data, .len = cut };
		_buf_ struct buf got = BUF_INIT;
		bool ends = false;

		for (size_t i = 0; i < n_whole; i++)
			ends |= whole[i] == cut;
		CU_ASSERT_EQUAL(unpack(&head, 1000, 1000, &got) == 0, ends);
	}
}

static void test_gzip(void)
{
	static const uint8_t flags[] = { 0, 2, 4, 8, 16, 30, 1 };
	_buf_ struct buf packed = BUF_INIT, want = BUF_INIT;
	size_t whole[sizeof flags];

	for (size_t i = 0; i < sizeof flags; i++) {
		size_t n = i == 2 ? 0 : 20 + 100 * i;

		member(&packed, text, n, flags[i]);
		buf_append(&want, text, n);
		whole[i] = packed.len;
	}
	check(&packed, &want, whole, sizeof flags);
	for (size_t at = whole[0]; at < whole[1]; at++) { /* the second has a checksum of its header as well */
		_buf_ struct buf got = BUF_INIT;

		packed.data[at] ^= 4;
		CU_ASSERT(unpack(&packed, 1000, 1000, &got) != 0);
		packed.data[at] ^= 4;
	}
}

static void test_zstd(void)
{
	static const uint8_t skippable[] = "\x50\x2a\x4d\x18\x03\0\0\0abc";
	_buf_ struct buf packed = BUF_INIT, want = BUF_INIT;
	size_t whole[6], n = 0;

	for (int i = 0; i < 3; i++) {
		uint8_t out[2048];
		ZSTD_CCtx *c = ZSTD_createCCtx();
		size_t m;

		ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
		m = ZSTD_compress2(c, out, sizeof out, text, i == 1 ? 0 : N);
		CU_ASSERT_FATAL(!ZSTD_isError(m));
		ZSTD_freeCCtx(c);
		buf_append(&packed, skippable, 11);
		whole[n++] = packed.len;
		buf_append(&packed, out, m);
		whole[n++] = packed.len;
		buf_append(&want, text, i == 1 ? 0 : N);
	}
	check(&packed, &want, whole, n);
}

static void test_bzip2(void)
{
	_buf_ struct buf packed = BUF_INIT, want = BUF_INIT;
	size_t whole[3];

	for (int i = 0; i < 3; i++) {
		char out[2048];
		unsigned m = sizeof out;

		CU_ASSERT_FATAL(BZ2_bzBuffToBuffCompress(out, &m, (char *)text, i == 1 ? 0 : N, 9, 0, 0) == BZ_OK);
		buf_append(&packed, out, m);
		buf_append(&want, text, i == 1 ? 0 : N);
		whole[i] = packed.len;
	}
	check(&packed, &want, whole, 3);
	buf_append(&packed, "garbage", 7);
	_buf_ struct buf got = BUF_INIT;

	CU_ASSERT(unpack(&packed, 1000, 1000, &got) != 0);
}

static void xz(struct buf *to, size_t n, uint32_t window)
{
	lzma_options_lzma o;
	lzma_filter filters[] = { { LZMA_FILTER_LZMA2, &o }, { LZMA_VLI_UNKNOWN, NULL } };
	uint8_t out[2048];
	size_t at = 0;

	lzma_lzma_preset(&o, 0);
	o.dict_size = window;
	CU_ASSERT_FATAL(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC32, NULL, text, n, out, &at, sizeof out) == LZMA_OK);
	buf_append(to, out, at);
}

static void test_xz(void)
{
	_buf_ struct buf packed = BUF_INIT, want = BUF_INIT, large = BUF_INIT, got = BUF_INIT, too_large = BUF_INIT, none = BUF_INIT;
	size_t whole[3];

	for (int i = 0; i < 3; i++) {
		xz(&packed, i == 1 ? 0 : N, 4096);
		buf_append(&want, text, i == 1 ? 0 : N);
		whole[i] = packed.len;
	}
	check(&packed, &want, whole, 3);
	xz(&large, N, 128u << 20);
	CU_ASSERT_EQUAL(unpack(&large, 1000, 1000, &got), 0);
	xz(&too_large, N, 192u << 20); /* memory is bounded, whatever a layer asks for */
	CU_ASSERT_EQUAL(unpack(&too_large, 1000, 1000, &none), -E2BIG);
}

int main(void)
{
	static const CU_TestInfo tests[] = { { "gzip", test_gzip }, { "zstd", test_zstd }, { "bzip2", test_bzip2 }, { "xz", test_xz }, CU_TEST_INFO_NULL };
	static CU_SuiteInfo suites[] = { { "inflate", NULL, NULL, NULL, NULL, (CU_TestInfo *)tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	make_text();
	if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
		return 2;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed != 0;
}
