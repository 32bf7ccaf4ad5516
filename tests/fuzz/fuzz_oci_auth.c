/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials as a client of the control socket hands them over. What comes out is an auth.json or nothing. */
#include "base/cleanup.h"
#include "base/oci_auth.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_free_ char *text = malloc(size + 1);
	struct oci_auth_request q = { .registry = "ghcr.io", .call_json = text, .helpers = true };
	struct edera_error err = EDERA_ERROR_INIT;
	_buf_ struct buf b = BUF_INIT;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (oci_auth_collect(&q, &b, &err) ? !err.msg[0] : b.len && strncmp((char *)b.data, "{\"auths\":{", 10))
		abort();
	return 0;
}
