/* SPDX-License-Identifier: Apache-2.0 */
/* What an image store promises about archives. */
#include "store.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define OTHER "sha256:1111111111111111111111111111111111111111111111111111111111111111"

static void test_import(void)
{
	char digest[EDERA_DIGEST_MAX], again[EDERA_DIGEST_MAX], path[PATH_CAP];
	struct edera_error err = EDERA_ERROR_INIT;
	struct stat st;
	_close_ int fd = open(store_opt->archive, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(import(-1, "some/name:1", "", 0, digest, &err) == -ENOENT && err.code == -ENOENT); /* it could be imported */
	CHECK_ERR(import(fd, "some/name:1", "", 0, digest, &err) == 0, &err);
	CHECK(fcntl(fd, F_GETFD) >= 0); /* borrowed */
	CHECK(text_valid_digest(digest) && listed(digest, NULL) == 1);
	CHECK(named(digest, "docker.io/some/name:1"));
	CHECK(has_digest(digest, EDERA_IMAGE_FILE_MANIFEST, digest));
	CHECK(file_of(digest, EDERA_IMAGE_FILE_ROOT, path, &st) && st.st_size > 0);
	/* It is there: no archive is needed, and another name is one more. */
	CHECK_ERR(import(-1, "another:2", digest, 0, again, &err) == 0 && !strcmp(digest, again), &err);
	CHECK(named(digest, "docker.io/library/another:2") && named(digest, "docker.io/some/name:1"));
	CHECK(import(-1, "another:2", digest, EDERA_PULL_OVERWRITE, again, NULL) == -ENOENT);
	CHECK_ERR(import(fd, "", digest, EDERA_PULL_OVERWRITE, again, &err) == 0 && !strcmp(digest, again), &err);
	CHECK(listed(NULL, NULL) == 1);
}

static void test_import_is_pull(void)
{
	char pulled[EDERA_DIGEST_MAX], imported[EDERA_DIGEST_MAX], path[PATH_CAP], before[EDERA_DIGEST_MAX];
	struct edera_error err = EDERA_ERROR_INIT;
	struct stat st;
	_close_ int fd = open(store_opt->archive, O_RDONLY | O_CLOEXEC);

	CHECK_ERR(pull(store_opt->image, 0, pulled, &err) == 0, &err);
	CHECK(file_of(pulled, EDERA_IMAGE_FILE_ROOT, path, &st));
	_close_ int root = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(root >= 0 && hash_fd(root, before));
	remove_all();
	CHECK_ERR(import(fd, "", "", 0, imported, &err) == 0, &err);
	CHECK(!strcmp(pulled, imported));
	CHECK(has_digest(imported, EDERA_IMAGE_FILE_ROOT, before));
}

static void test_import_refused(void)
{
	char digest[EDERA_DIGEST_MAX] = "untouched";
	struct edera_error err = EDERA_ERROR_INIT;
	_close_ int fd = open(store_opt->archive, O_RDONLY | O_CLOEXEC), nothing = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), none = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int r;

	CHECK(import(fd, "", OTHER, 0, digest, &err) < 0 && err.code < 0 && err.msg[0]);
	CHECK(import(fd, "NOT A NAME", "", 0, digest, NULL) < 0);
	CHECK(import(fd, "a@" OTHER, "", 0, digest, NULL) < 0);
	CHECK(import(fd, "", "sha256:12", 0, digest, NULL) < 0);
	err = (struct edera_error)EDERA_ERROR_INIT;
	r = import(nothing, "a:1", "", 0, digest, &err); /* no archive */
	CHECK_ERR(r < 0 && r == err.code && err.msg[0], &err);
	CHECK(import(none, "a:1", "", 0, digest, NULL) < 0); /* not even a file */
	CHECK(!strcmp(digest, "untouched"));
	CHECK(listed(NULL, NULL) == 0);
}

static void test_import_bound(void)
{
	struct edera_import i = { .size = sizeof i, .format = EDERA_IMAGE_SQUASHFS, .name = "a:1", .digest = "" };
	struct edera_error err = EDERA_ERROR_INIT;
	struct watched w = { .thread = pthread_self() };
	char digest[EDERA_DIGEST_MAX];
	_close_ int fd = open(store_opt->archive, O_RDONLY | O_CLOEXEC);

	i.archive_fd = fd;
	CHECK(store->import(store_inst, cancelled_after(0), &i, digest, &err) == -ECANCELED && err.code == -ECANCELED);
	CHECK(store->import(store_inst, within_ms(-1), &i, digest, &err) == -ETIMEDOUT && err.code == -ETIMEDOUT);
	CHECK(listed(NULL, NULL) == 0);
	i.progress = watch;
	i.user = &w;
	CHECK_ERR(store->import(store_inst, SOON, &i, digest, &err) == 0, &err);
	CHECK(w.calls > 0 && !w.elsewhere && !w.backwards && !w.malformed && w.last == 8);
	i.format = 99;
	CHECK(store->import(store_inst, SOON, &i, digest, NULL) < 0);
}

const struct test import_tests[] = {
	{ "import", test_import, STORE_HAS_IMPORT },
	{ "import-refused", test_import_refused, STORE_HAS_IMPORT },
	{ "import-bound", test_import_bound, STORE_HAS_IMPORT },
	{ "import-is-pull", test_import_is_pull, STORE_HAS_IMPORT | STORE_HAS_IMAGE },
};
const size_t n_import_tests = ARRAY_SIZE(import_tests);
