/* SPDX-License-Identifier: Apache-2.0 */
#include "source.h"

#include <string.h>

int source_new(const struct origin *ref, const struct options *o, struct source **ret, struct edera_error *err)
{
	return ref->kind == ORIGIN_REGISTRY ? source_registry_new(ref, o, ret, err) : source_layout_new(ref, o, ret, err);
}

void fetch_is_here(struct fetch *f, bool here) { __atomic_store_n(&f->here, here, __ATOMIC_RELAXED); }

int fetch_begin(struct fetch *f, struct edera_error *err)
{
	__atomic_store_n(&f->phase, FETCH_RUNNING, __ATOMIC_RELAXED);
	return digest_begin(&f->digest, f->what->digest, err);
}

static int put(struct fetch *f, const void *data, size_t n, bool spool, bool wait, struct edera_error *err)
{
	int r;

	if (n > f->what->size - f->got)
		return err_set(err, -EBADMSG, "the blob %s is longer than the %llu bytes its descriptor says", f->what->digest, (unsigned long long)f->what->size);
	r = wait ? blob_put_wait(&f->blob, data, n, err) : blob_put(&f->blob, data, n, spool, err);
	if (r)
		return r;
	if (digest_update(&f->digest, data, n))
		return err_set(err, -EIO, "cannot compute a digest");
	__atomic_store_n(&f->got, f->got + n, __ATOMIC_RELAXED);
	return 0;
}

int fetch_put(struct fetch *f, const void *data, size_t n, bool spool, struct edera_error *err) { return put(f, data, n, spool, false, err); }
int fetch_put_wait(struct fetch *f, const void *data, size_t n, struct edera_error *err) { return put(f, data, n, false, true, err); }

int fetch_end(struct fetch *f, struct edera_error *err)
{
	char found[DIGEST_MAX];

	if (f->got != f->what->size)
		return err_set(err, -EBADMSG, "the blob %s ends after %llu of %llu bytes", f->what->digest, (unsigned long long)f->got,
			       (unsigned long long)f->what->size);
	if (digest_end(&f->digest, found))
		return err_set(err, -EIO, "cannot compute a digest");
	if (strcmp(found, f->what->digest))
		return err_set(err, -EBADMSG, "the blob %s is not what was sent: its bytes have the digest %s", f->what->digest, found);
	__atomic_store_n(&f->phase, FETCH_DONE, __ATOMIC_RELAXED);
	blob_end(&f->blob);
	return 0;
}
