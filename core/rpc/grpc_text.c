/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/grpc_text.h"

#include <inttypes.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/cleanup.h"
#include "base/text.h"

char *grpc_text_encode(const char *message)
{
	static const char hex[] = "0123456789ABCDEF";
	_free_ char *text = strndup(message, GRPC_TEXT_MESSAGE_MAX);
	char *ret, *out;

	if (!text)
		return NULL;
	if (strlen(message) > GRPC_TEXT_MESSAGE_MAX) /* not in the middle of a character */
		for (size_t n = strlen(text); n > 0 && ((unsigned char)message[n] & 0xc0) == 0x80; n--)
			text[n - 1] = 0;
	text_force_utf8(text);
	ret = out = malloc(3 * strlen(text) + 1);
	if (!ret)
		return NULL;
	for (const unsigned char *p = (unsigned char *)text; *p; p++) {
		if (*p >= 0x20 && *p <= 0x7e && *p != '%') {
			*out++ = (char)*p;
			continue;
		}
		*out++ = '%';
		*out++ = hex[*p >> 4];
		*out++ = hex[*p & 15];
	}
	*out = 0;
	return ret;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

char *grpc_text_decode(const char *value, size_t len)
{
	char *ret = malloc(len + 1), *out = ret;

	if (!ret)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		int hi = value[i] == '%' && i + 2 < len ? hex_digit(value[i + 1]) : -1;
		int lo = hi >= 0 ? hex_digit(value[i + 2]) : -1;

		if (lo >= 0 && (hi || lo)) {
			*out++ = (char)(hi << 4 | lo);
			i += 2;
		} else {
			*out++ = value[i] ? value[i] : '?';
		}
	}
	*out = 0;
	text_force_utf8(ret);
	return ret;
}

int grpc_text_parse_timeout(const char *value, size_t len, uint64_t *ret_ns)
{
	static const struct { char unit; uint64_t ns; } units[] = {
		{ 'n', 1 }, { 'u', 1000 }, { 'm', 1000000 }, { 'S', 1000000000 }, { 'M', 60000000000 }, { 'H', 3600000000000 },
	};
	const uint64_t cap = 100ull * 365 * 24 * 3600 * 1000000000;
	uint64_t n = 0;

	if (len < 2 || len > 9)
		return -EINVAL;
	for (size_t i = 0; i < len - 1; i++) {
		if (value[i] < '0' || value[i] > '9')
			return -EINVAL;
		n = 10 * n + (uint64_t)(value[i] - '0');
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (units[i].unit == value[len - 1]) {
			*ret_ns = n > cap / units[i].ns ? cap : n * units[i].ns;
			return 0;
		}
	return -EINVAL;
}

void grpc_text_format_timeout(char dst[16], uint64_t timeout_ms)
{
	const uint64_t max = 99999999;

	if (timeout_ms <= max)
		snprintf(dst, 16, "%" PRIu64 "m", timeout_ms);
	else
		snprintf(dst, 16, "%" PRIu64 "S", timeout_ms / 1000 < max ? timeout_ms / 1000 : max);
}

bool grpc_text_is_content_type(const char *value, size_t len)
{
	static const char type[] = "application/grpc";
	size_t n = sizeof type - 1;

	return len >= n && memcmp(value, type, n) == 0 && (len == n || value[n] == '+' || value[n] == ';');
}

int grpc_text_parse_status(const char *value, size_t len)
{
	int n = 0;

	if (len == 0 || len > 4)
		return RPC_UNKNOWN;
	for (size_t i = 0; i < len; i++) {
		if (value[i] < '0' || value[i] > '9')
			return RPC_UNKNOWN;
		n = 10 * n + (value[i] - '0');
	}
	return n <= RPC_UNAUTHENTICATED ? n : RPC_UNKNOWN;
}

enum rpc_status grpc_text_status_of_http(int http_status)
{
	switch (http_status) {
	case 400:
		return RPC_INTERNAL;
	case 401:
		return RPC_UNAUTHENTICATED;
	case 403:
		return RPC_PERMISSION_DENIED;
	case 404:
		return RPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return RPC_UNAVAILABLE;
	default:
		return RPC_UNKNOWN;
	}
}

enum rpc_status grpc_text_status_of_reset(uint32_t http2_error)
{
	switch (http2_error) {
	case NGHTTP2_REFUSED_STREAM:
		return RPC_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return RPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return RPC_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return RPC_PERMISSION_DENIED;
	default:
		return RPC_INTERNAL;
	}
}
