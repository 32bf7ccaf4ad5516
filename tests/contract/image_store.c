/* SPDX-License-Identifier: Apache-2.0 */
/* What an image store promises. The options say what there is to fetch: an image, the archive of the same image, a name that is nothing, and a
 * place that takes a request and never answers it. */
#include "store.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const struct edera_image_store_ops *store;
void *store_inst;
const struct options *store_opt;

#define NOBODY "sha256:00000000000000000000000000000000000000000000000000000000deadbeef"

static void test_table(void)
{
	CHECK(store->size >= offsetof(struct edera_image_store_ops, import));
	CHECK(store->pull && store->list && store->remove && store->file);
}

static void test_left(void)
{
	/* The process before this one was killed in mid-pull. */
	CHECK(listed(NULL, NULL) == 0);
}

static void test_unknown(void)
{
	char path[PATH_CAP] = "untouched";
	struct edera_error err = EDERA_ERROR_INIT;
	int removed = 7;

	for (uint32_t which = EDERA_IMAGE_FILE_ROOT; which <= EDERA_IMAGE_FILE_CONFIG; which++) {
		CHECK(store->file(store_inst, SOON, NOBODY, EDERA_IMAGE_SQUASHFS, which, path, &err) == -ENOENT);
		CHECK(err.code == -ENOENT && err.msg[0]);
	}
	CHECK(!strcmp(path, "untouched"));
	CHECK_ERR(store->remove(store_inst, SOON, NOBODY, EDERA_IMAGE_SQUASHFS, &removed, &err) == 0 && removed == 0, &err);
	CHECK(store->file(store_inst, SOON, NOBODY, EDERA_IMAGE_SQUASHFS, 99, path, NULL) < 0);
	CHECK(store->file(store_inst, SOON, NOBODY, 99, EDERA_IMAGE_FILE_ROOT, path, NULL) < 0);
}

static void test_bad_requests(void)
{
	static const char *const references[] = { "", "NOT A REFERENCE", "a//b", "x:", "@sha256:12" };

	for (size_t i = 0; i < ARRAY_SIZE(references); i++) {
		char digest[EDERA_DIGEST_MAX] = "untouched";
		struct edera_error err = EDERA_ERROR_INIT;
		struct edera_pull p = { .size = sizeof p, .format = EDERA_IMAGE_SQUASHFS, .reference = references[i] };
		int r = store->pull(store_inst, SOON, &p, digest, &err);

		CHECK_ERR(r < 0 && r == err.code && err.msg[0], &err);
		CHECK(!strcmp(digest, "untouched"));
	}
	struct edera_pull p = { .size = sizeof p, .format = 99, .reference = store_opt->image };
	char digest[EDERA_DIGEST_MAX];

	CHECK(store->pull(store_inst, SOON, &p, digest, NULL) < 0);
	CHECK(listed(NULL, NULL) == 0);
}

static void test_missing(void)
{
	char digest[EDERA_DIGEST_MAX] = "untouched";
	struct edera_error err = EDERA_ERROR_INIT;
	int r = pull(store_opt->missing, 0, digest, &err);

	CHECK_ERR(r < 0 && r == err.code && err.msg[0], &err);
	CHECK(!strcmp(digest, "untouched"));
	CHECK(listed(NULL, NULL) == 0);
}

static void test_pull(void)
{
	char digest[EDERA_DIGEST_MAX], again[EDERA_DIGEST_MAX], path[PATH_CAP];
	struct edera_image_info info;
	struct edera_error err = EDERA_ERROR_INIT;
	struct stat st, st2;

	CHECK_ERR(pull(store_opt->image, 0, digest, &err) == 0, &err);
	CHECK(text_valid_digest(digest));
	CHECK(listed(digest, &info) == 1);
	CHECK(info.format == EDERA_IMAGE_SQUASHFS && info.bytes > 0);
	CHECK(info.created <= time(NULL) + 1 && info.created > time(NULL) - 3600);
	CHECK(!info.source_digest[0] || text_valid_digest(info.source_digest));
	CHECK(has_digest(digest, EDERA_IMAGE_FILE_MANIFEST, digest));
	CHECK(file_of(digest, EDERA_IMAGE_FILE_CONFIG, path, &st) && st.st_size > 0);
	CHECK(file_of(digest, EDERA_IMAGE_FILE_ROOT, path, &st) && (uint64_t)st.st_size == info.bytes);
	CHECK(st.st_uid == geteuid() && !(st.st_mode & 022)); /* zones only read it */
	CHECK_ERR(pull(store_opt->image, 0, again, &err) == 0 && !strcmp(digest, again), &err);
	CHECK(file_of(digest, EDERA_IMAGE_FILE_ROOT, path, &st2) && st.st_ino == st2.st_ino); /* it was there */
	CHECK(listed(NULL, NULL) == 1);
}

static void test_overwrite(void)
{
	char digest[EDERA_DIGEST_MAX], again[EDERA_DIGEST_MAX], path[PATH_CAP], before[EDERA_DIGEST_MAX], held[EDERA_DIGEST_MAX], now[EDERA_DIGEST_MAX];
	struct edera_error err = EDERA_ERROR_INIT;
	struct stat st, st2;

	CHECK_ERR(pull(store_opt->image, 0, digest, &err) == 0, &err);
	CHECK(file_of(digest, EDERA_IMAGE_FILE_ROOT, path, &st));
	_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && hash_fd(fd, before));
	CHECK_ERR(pull(store_opt->image, EDERA_PULL_OVERWRITE, again, &err) == 0 && !strcmp(digest, again), &err);
	CHECK(hash_fd(fd, held) && !strcmp(before, held)); /* who holds the old file is not disturbed */
	CHECK(file_of(digest, EDERA_IMAGE_FILE_ROOT, path, &st2) && st.st_ino != st2.st_ino); /* made again, not changed */
	_close_ int fresh = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(fresh >= 0 && hash_fd(fresh, now));
	CHECK(listed(NULL, NULL) == 1);
}

static void test_progress(void)
{
	struct watched w = { .thread = pthread_self() };
	struct edera_error err = EDERA_ERROR_INIT;
	char digest[EDERA_DIGEST_MAX];
	struct edera_pull p = { .size = sizeof p, .format = EDERA_IMAGE_SQUASHFS, .flags = EDERA_PULL_OVERWRITE, .reference = store_opt->image, .progress = watch, .user = &w };

	CHECK_ERR(store->pull(store_inst, SOON, &p, digest, &err) == 0, &err);
	CHECK(w.calls > 0 && !w.elsewhere && !w.backwards && !w.malformed);
	CHECK(w.last == 8);
	w = (struct watched){ .thread = pthread_self() };
	p.flags = 0;
	CHECK_ERR(store->pull(store_inst, SOON, &p, digest, &err) == 0, &err);
	CHECK(!w.elsewhere && !w.backwards && !w.malformed && (!w.calls || w.last == 8));
}

static void test_list_stops(void)
{
	struct edera_pull p = { .size = sizeof p, .format = EDERA_IMAGE_TAR, .reference = store_opt->image };
	char digest[EDERA_DIGEST_MAX];
	int calls = 0;

	CHECK(pull(store_opt->image, 0, digest, NULL) == 0);
	store->pull(store_inst, SOON, &p, digest, NULL); /* a second entry, where there are tars */
	CHECK(store->list(store_inst, SOON, stop_at_once, &calls, NULL) == 42 && calls == 1);
}

static void test_cancel(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char digest[EDERA_DIGEST_MAX];
	int64_t start = now_ms();
	int r;

	/* Given up in mid-pull. */
	r = pull_bound(store_opt->silent, cancelled_after(300), digest, &err);
	CHECK_ERR(r == -ECANCELED && err.code == r && err.msg[0], &err);
	CHECK(now_ms() - start >= 250 && now_ms() - start < 10000);
	/* ... and before it began. */
	start = now_ms();
	CHECK(pull_bound(store_opt->silent, cancelled_after(0), digest, NULL) == -ECANCELED);
	CHECK(now_ms() - start < 10000);
	CHECK(listed(NULL, NULL) == 0);
}

static void test_deadline(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char digest[EDERA_DIGEST_MAX];
	int64_t start = now_ms();
	int r = pull_bound(store_opt->silent, within_ms(400), digest, &err);

	CHECK_ERR(r == -ETIMEDOUT && err.code == r && err.msg[0], &err);
	CHECK(now_ms() - start >= 350 && now_ms() - start < 10000);
	CHECK(listed(NULL, NULL) == 0);
}

static void test_remove(void)
{
	char digest[EDERA_DIGEST_MAX], path[PATH_CAP], before[EDERA_DIGEST_MAX], held[EDERA_DIGEST_MAX];
	struct edera_error err = EDERA_ERROR_INIT;
	struct stat st;
	int removed = 0;

	CHECK_ERR(pull(store_opt->image, 0, digest, &err) == 0, &err);
	CHECK(file_of(digest, EDERA_IMAGE_FILE_ROOT, path, &st));
	_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && hash_fd(fd, before));
	CHECK_ERR(store->remove(store_inst, SOON, digest, EDERA_IMAGE_TAR, &removed, &err) == 0 && !removed, &err); /* another format */
	CHECK_ERR(store->remove(store_inst, SOON, digest, EDERA_IMAGE_SQUASHFS, &removed, &err) == 0 && removed == 1, &err);
	CHECK(store->file(store_inst, SOON, digest, EDERA_IMAGE_SQUASHFS, EDERA_IMAGE_FILE_ROOT, path, NULL) == -ENOENT);
	CHECK(listed(NULL, NULL) == 0);
	CHECK(hash_fd(fd, held) && !strcmp(before, held));
	CHECK_ERR(store->remove(store_inst, SOON, digest, EDERA_IMAGE_SQUASHFS, &removed, &err) == 0 && !removed, &err);
}

static void test_together(void)
{
	struct worker w[8];
	size_t n = ARRAY_SIZE(w);

	for (size_t i = 0; i < n; i++)
		w[i] = (struct worker){ .reference = store_opt->image, .times = 3, .flags = i % 4 == 3 ? EDERA_PULL_OVERWRITE : 0 };
	run_together(w, n);
	for (size_t i = 0; i < n; i++)
		CHECK_ERR(w[i].result == 0 && !strcmp(w[i].digest, w[0].digest), &w[i].err);
	CHECK(listed(w[0].digest, NULL) == 1 && listed(NULL, NULL) == 1);
	/* One of two that share the work gives up: the other does not notice. */
	w[0] = (struct worker){ .reference = store_opt->silent, .times = 1, .call = *cancelled_after(200) };
	w[1] = (struct worker){ .reference = store_opt->silent, .times = 1, .call = *cancelled_after(1200) };
	int64_t start = now_ms();

	run_together(w, 2);
	CHECK(w[0].result == -ECANCELED && w[1].result == -ECANCELED);
	CHECK(now_ms() - start > 1000);
}

/* Whatever is pulled, listed and removed at the same time: only answers that make sense. */
static void test_storm(void)
{
	struct worker w[8];

	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		w[i] = (struct worker){ .reference = store_opt->image, .times = 10, .storm = (unsigned)i % 3 };
	run_together(w, ARRAY_SIZE(w));
	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		CHECK_ERR(w[i].result == 0, &w[i].err);
}

const struct test store_tests[] = {
	{ "left", test_left, 0 }, /* first: the others begin with an empty cache */
	{ "table", test_table, 0 },
	{ "unknown", test_unknown, 0 },
	{ "bad-requests", test_bad_requests, 0 },
	{ "missing", test_missing, STORE_HAS_MISSING },
	{ "pull", test_pull, STORE_HAS_IMAGE },
	{ "overwrite", test_overwrite, STORE_HAS_IMAGE },
	{ "progress", test_progress, STORE_HAS_IMAGE },
	{ "list-stops", test_list_stops, STORE_HAS_IMAGE },
	{ "remove", test_remove, STORE_HAS_IMAGE },
	{ "cancel", test_cancel, STORE_HAS_SILENT },
	{ "deadline", test_deadline, STORE_HAS_SILENT },
	{ "together", test_together, STORE_HAS_IMAGE | STORE_HAS_SILENT },
	{ "storm", test_storm, STORE_HAS_IMAGE },
};
const size_t n_store_tests = ARRAY_SIZE(store_tests);
