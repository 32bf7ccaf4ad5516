/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

struct edera_call *within_ms(int64_t ms)
{
	static _Thread_local struct edera_call c;

	c = (struct edera_call){ .size = sizeof c, .cancel_fd = -1, .deadline_ns = (now_ms() + ms) * 1000000 };
	return &c;
}

/* A timer's descriptor is as good as any. It is left to the end of the process. */
struct edera_call *cancelled_after(int64_t ms)
{
	struct itimerspec t = { .it_value = { ms / 1000, ms % 1000 * 1000000 + 1 } };
	struct edera_call *c = within_ms(120000);

	c->cancel_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	timerfd_settime(c->cancel_fd, 0, &t, NULL);
	if (!ms)
		usleep(10000);
	return c;
}

int pull_bound(const char *reference, const struct edera_call *call, char digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	struct edera_pull p = { .size = sizeof p, .format = EDERA_IMAGE_SQUASHFS, .reference = reference };

	return store->pull(store_inst, call, &p, digest, err);
}

int pull(const char *reference, uint32_t flags, char digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	struct edera_pull p = { .size = sizeof p, .format = EDERA_IMAGE_SQUASHFS, .flags = flags, .reference = reference };

	return store->pull(store_inst, SOON, &p, digest, err);
}

int import(int fd, const char *name, const char *expected, uint32_t flags, char digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	struct edera_import i = { .size = sizeof i, .format = EDERA_IMAGE_SQUASHFS, .flags = flags, .archive_fd = fd, .name = name, .digest = expected };

	return store->import(store_inst, SOON, &i, digest, err);
}

struct find {
	const char *digest, *name;
	struct edera_image_info *ret;
	int n;
	bool named, bad;
};

static int on_image(void *user, const struct edera_image_info *i)
{
	struct find *f = user;

	f->bad |= i->size < offsetof(struct edera_image_info, layers_bytes) || !text_valid_digest(i->digest);
	if (f->digest && strcmp(f->digest, i->digest))
		return 0;
	f->n++;
	if (f->ret)
		*f->ret = *i;
	for (size_t k = 0; f->name && k < i->n_names; k++)
		f->named |= !strcmp(i->names[k], f->name);
	return 0;
}

int listed(const char *digest, struct edera_image_info *ret)
{
	struct find f = { .digest = digest, .ret = ret };

	return store->list(store_inst, SOON, on_image, &f, NULL) || f.bad ? -1 : f.n;
}

bool named(const char *digest, const char *name)
{
	struct find f = { .digest = digest, .name = name };

	return store->list(store_inst, SOON, on_image, &f, NULL) == 0 && f.named;
}

int stop_at_once(void *user, const struct edera_image_info *i)
{
	++*(int *)user;
	return 42;
}

struct all {
	char digests[64][EDERA_DIGEST_MAX];
	uint32_t formats[64];
	size_t n;
};

static int collect(void *user, const struct edera_image_info *i)
{
	struct all *a = user;

	if (a->n == ARRAY_SIZE(a->digests))
		return 1;
	a->formats[a->n] = i->format;
	snprintf(a->digests[a->n++], EDERA_DIGEST_MAX, "%s", i->digest);
	return 0;
}

void remove_all(void)
{
	struct all a = { .n = 0 };
	int removed;

	store->list(store_inst, SOON, collect, &a, NULL);
	for (size_t i = 0; i < a.n; i++)
		store->remove(store_inst, SOON, a.digests[i], a.formats[i], &removed, NULL);
}

bool file_of(const char *digest, uint32_t which, char path[PATH_CAP], struct stat *st)
{
	return store->file(store_inst, SOON, digest, EDERA_IMAGE_SQUASHFS, which, path, NULL) == 0 && path[0] == '/' && lstat(path, st) == 0 && S_ISREG(st->st_mode);
}

bool hash_fd(int fd, char ret[EDERA_DIGEST_MAX])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char piece[65536], md[32];
	off_t at = 0;
	ssize_t n;

	EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);
	while ((n = pread(fd, piece, sizeof piece, at)) > 0) {
		EVP_DigestUpdate(ctx, piece, (size_t)n);
		at += n;
	}
	EVP_DigestFinal_ex(ctx, md, NULL);
	EVP_MD_CTX_free(ctx);
	strcpy(ret, "sha256:");
	for (int i = 0; i < 32; i++)
		snprintf(ret + 7 + 2 * i, 3, "%02x", md[i]);
	return n == 0;
}

bool has_digest(const char *digest, uint32_t which, const char *expected)
{
	char path[PATH_CAP], found[EDERA_DIGEST_MAX];
	struct stat st;

	if (!file_of(digest, which, path, &st))
		return false;
	_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && hash_fd(fd, found) && !strcmp(found, expected);
}

void watch(void *user, const struct edera_pull_progress *p)
{
	struct watched *w = user;

	w->calls++;
	w->elsewhere |= !pthread_equal(w->thread, pthread_self());
	w->backwards |= p->phase < w->last;
	w->malformed |= p->size < sizeof *p || p->phase < 1 || p->phase > 8 || (p->n_layers && (!p->layers || p->layer_size < sizeof *p->layers));
	for (uint32_t i = 0; !w->malformed && i < p->n_layers; i++) {
		const struct edera_pull_layer *l = (const void *)((const char *)p->layers + (size_t)i * p->layer_size);

		w->malformed |= !text_valid_digest(l->id) || l->phase < 1 || l->phase > 5 || (l->total && l->current > l->total);
	}
	w->last = p->phase;
}

static int once(struct worker *w)
{
	struct edera_call *call = w->call.size ? &w->call : SOON;
	struct edera_pull p = { .size = sizeof p, .format = EDERA_IMAGE_SQUASHFS, .flags = w->flags, .reference = w->reference };
	struct edera_image_info info = { .size = 0 };
	char path[PATH_CAP];
	int r, removed;

	switch (w->storm) {
	case 0:
		return store->pull(store_inst, call, &p, w->digest, &w->err);
	case 1:
		r = listed(NULL, &info);
		if (r > 0) /* it may be gone by now */
			r = store->file(store_inst, call, info.digest, EDERA_IMAGE_SQUASHFS, EDERA_IMAGE_FILE_ROOT, path, &w->err);
		return r == -ENOENT ? 0 : r;
	default:
		if (listed(NULL, &info) <= 0)
			return 0;
		r = store->remove(store_inst, call, info.digest, info.format, &removed, &w->err);
		return r == -EBUSY ? 0 : r;
	}
}

static void *work(void *user)
{
	struct worker *w = user;

	w->err = (struct edera_error)EDERA_ERROR_INIT;
	w->result = 0;
	for (unsigned i = 0; i < w->times && !w->result; i++)
		w->result = once(w);
	return NULL;
}

void run_together(struct worker *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	for (size_t i = 0; i < n; i++)
		pthread_join(w[i].thread, NULL);
}

/* Each test begins with an empty cache. */
static const struct test *inner;

static void emptied(void)
{
	remove_all();
	inner->run();
}

static void run_each(const struct options *o, const struct test *tests, size_t n, uint64_t has)
{
	for (size_t i = 0; i < n; i++) {
		struct test t = { tests[i].name, strcmp(tests[i].name, "left") ? emptied : tests[i].run, tests[i].caps };

		inner = &tests[i];
		run_tests(o, &t, 1, has);
	}
}

void test_image_store(const struct options *o, const struct edera_provide *p, void *inst)
{
	uint64_t has = (o->image ? STORE_HAS_IMAGE : 0) | (o->missing ? STORE_HAS_MISSING : 0) | (o->silent ? STORE_HAS_SILENT : 0);

	store = p->ops;
	store_inst = inst;
	store_opt = o;
	if (store->size >= offsetof(struct edera_image_store_ops, import) + sizeof store->import && store->import && o->archive)
		has |= STORE_HAS_IMPORT;
	run_each(o, store_tests, n_store_tests, has);
	run_each(o, import_tests, n_import_tests, has);
	remove_all();
}

static void *pull_for_ever(void *unused)
{
	char digest[EDERA_DIGEST_MAX];

	pull(store_opt->silent, 0, digest, NULL);
	return unused;
}

int image_store_leave(const struct options *o, const struct edera_provide *p, void *inst)
{
	pthread_t t;

	store = p->ops;
	store_inst = inst;
	store_opt = o;
	if (!o->silent || pthread_create(&t, NULL, pull_for_ever, NULL))
		return -1;
	sleep(1);
	return 0;
}
