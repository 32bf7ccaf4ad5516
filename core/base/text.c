/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <wchar.h>

/* Length of the valid sequence at p (end exclusive), 0 if there is none. */
static size_t utf8_sequence(const uint8_t *p, const uint8_t *end)
{
	size_t n = *p < 0x80 ? 1 : (*p & 0xe0) == 0xc0 ? 2 : (*p & 0xf0) == 0xe0 ? 3 : (*p & 0xf8) == 0xf0 ? 4 : 0;
	static const uint32_t lowest[] = { 0, 1, 0x80, 0x800, 0x10000 };
	uint32_t c;

	if (n == 0 || (size_t)(end - p) < n)
		return 0;
	if (n == 1)
		return *p ? 1 : 0;
	c = *p & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	return c < lowest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : n;
}

bool text_valid_utf8(const void *data, size_t len)
{
	const uint8_t *p = data, *end = p + len;

	while (p < end) {
		size_t n = utf8_sequence(p, end);

		if (!n)
			return false;
		p += n;
	}
	return true;
}

void text_force_utf8(char *s)
{
	uint8_t *p = (uint8_t *)s, *end = p + strlen(s);

	while (p < end) {
		size_t n = utf8_sequence(p, end);

		if (!n) {
			*p = '?';
			n = 1;
		}
		p += n;
	}
}

size_t text_decode(const char *s, uint32_t *ret)
{
	const uint8_t *u = (const uint8_t *)s;
	size_t n = *u ? utf8_sequence(u, u + strnlen(s, 4)) : 0;
	uint32_t c = n == 1 ? u[0] : u[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (u[i] & 0x3f);
	if (n)
		*ret = c;
	return n;
}

bool text_harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void text_escape(struct buf *b, const char *s)
{
	while (*s) {
		uint32_t c = 0;
		size_t n = text_decode(s, &c);

		if (!n) {
			buf_printf(b, "\\x%02x", (unsigned char)*s);
			n = 1;
		} else if (c == '\n') {
			buf_puts(b, "\\n");
		} else if (c == '\t') {
			buf_puts(b, "\\t");
		} else if (text_harmful(c)) {
			buf_printf(b, c < 0x80 ? "\\x%02x" : "\\u{%04x}", c);
		} else {
			buf_append(b, s, n);
		}
		s += n;
	}
}

size_t text_width(const char *s)
{
	size_t width = 0;

	while (*s) {
		uint32_t c = 0;
		size_t n = text_decode(s, &c);
		int w = n ? wcwidth((wchar_t)c) : 1;

		/* A locale that knows no such character says -1. */
		width += w < 0 ? 1 : (size_t)w;
		s += n ? n : 1;
	}
	return width;
}

void text_size(struct buf *b, uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)bytes;
	size_t u = 0;

	while (v >= 1023.95 && u + 1 < sizeof units / sizeof units[0]) {
		v /= 1024;
		u++;
	}
	buf_printf(b, u && v < 99.95 ? "%.1f %s" : "%.0f %s", v, units[u]);
}

void text_flatten(char *s)
{
	while (*s) {
		uint32_t c = (unsigned char)*s;
		size_t n = text_decode(s, &c);

		/* A lone byte of these is a control to terminals that know no UTF-8. */
		if (text_harmful(c))
			memset(s, ' ', n ? n : 1);
		s += n ? n : 1;
	}
}

bool text_valid_digest(const char *s)
{
	size_t hex = text_starts(s, "sha256:") ? 64 : text_starts(s, "sha512:") ? 128 : 0;

	return hex && strlen(s) == 7 + hex && strspn(s + 7, "0123456789abcdef") == hex;
}

bool text_valid_name(const char *s)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t n = strlen(s);

	return n > 0 && n <= 253 && !strchr("._-", *s) && strspn(s, allowed) == n;
}

bool text_starts(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

bool text_ends(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

int text_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;
	uint64_t v;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno || v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

void text_uuid(char dst[37])
{
	uint8_t b[16];
	size_t have = 0;

	while (have < sizeof b) {
		ssize_t n = getrandom(b + have, sizeof b - have, 0);

		if (n > 0)
			have += (size_t)n;
		else if (errno != EINTR)
			abort(); /* no kernel we run on fails here */
	}
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	snprintf(dst, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5],
		 b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

bool text_is_uuid(const char *s)
{
	for (int i = 0; i < 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : !((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
			return false;
	}
	return s[36] == 0;
}
