/* SPDX-License-Identifier: Apache-2.0 */
#include "digest.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <openssl/evp.h>
#include <string.h>

int digest_check(const char *text, struct edera_error *err)
{
	if (text_valid_digest(text))
		return 0;
	return err_set(err, -EINVAL, "'%.150s' is not a digest of a kind that is supported (sha256 or sha512, in lower-case hex)", text);
}

int digest_begin(struct digest *d, const char *like, struct edera_error *err)
{
	bool wide = text_starts(like, "sha512:");

	if (!d->ctx)
		d->ctx = EVP_MD_CTX_new();
	if (!d->ctx || EVP_DigestInit_ex(d->ctx, wide ? EVP_sha512() : EVP_sha256(), NULL) != 1)
		return err_set(err, -ENOMEM, "cannot start a %s digest", wide ? "sha512" : "sha256");
	d->algorithm = wide ? "sha512" : "sha256";
	return 0;
}

int digest_update(struct digest *d, const void *data, size_t n)
{
	return EVP_DigestUpdate(d->ctx, data, n) == 1 ? 0 : -EIO;
}

int digest_end(struct digest *d, char ret[DIGEST_MAX])
{
	static const char hex[] = "0123456789abcdef";
	uint8_t md[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	size_t at;

	if (EVP_DigestFinal_ex(d->ctx, md, &n) != 1)
		return -EIO;
	at = (size_t)(stpcpy(stpcpy(ret, d->algorithm), ":") - ret);
	for (unsigned i = 0; i < n && at + 2 < DIGEST_MAX; i++) {
		ret[at++] = hex[md[i] >> 4];
		ret[at++] = hex[md[i] & 15];
	}
	ret[at] = 0;
	return 0;
}

void digest_free(struct digest *d)
{
	EVP_MD_CTX_free(d->ctx);
	d->ctx = NULL;
}

int digest_of(const void *data, size_t n, const char *like, char ret[DIGEST_MAX], struct edera_error *err)
{
	_cleanup_(digest_free) struct digest d = DIGEST_INIT;
	int r = digest_begin(&d, like, err);

	if (r)
		return r;
	if (digest_update(&d, data, n) || digest_end(&d, ret))
		return err_set(err, -EIO, "cannot compute a digest");
	return 0;
}
