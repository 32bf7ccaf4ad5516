/* SPDX-License-Identifier: Apache-2.0 */
/* What clients send, on its way to the disk. */
#include "upload.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <CUnit/Basic.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uv_loop_t loop;
static struct worker_pool *pool;
static char dir[] = "/tmp/upload.XXXXXX";
static struct {
	unsigned room, complete, failed;
	int fd, code;
	char message[504];
} seen;

static void on_room(void *user) { seen.room++; }

static void on_complete(void *user, int fd)
{
	seen.complete++;
	seen.fd = fd;
	uv_stop(&loop);
}

static void on_failed(void *user, const struct edera_error *err)
{
	seen.failed++;
	seen.code = err->code;
	snprintf(seen.message, sizeof seen.message, "%s", err->msg);
	uv_stop(&loop);
}

static const struct upload_ops ops = { on_room, on_complete, on_failed };

static unsigned files(void)
{
	_closedir_ DIR *d = opendir(dir);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	return n - 2;
}

static struct upload *begin(const char *where, uint64_t max)
{
	memset(&seen, 0, sizeof seen);
	return upload_new(pool, where, max, "[oci] max-image-mb", &ops, NULL);
}

static void settle(struct upload *u)
{
	upload_free(u);
	for (int i = 0; i < 50; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
}

static void test_whole(void)
{
	static uint8_t piece[100003], back[sizeof piece];
	struct upload *u = begin(dir, 64 << 20);
	unsigned full = 0;

	for (unsigned i = 0; i < 200; i++) {
		memset(piece, (int)i, sizeof piece);
		CU_ASSERT_EQUAL_FATAL(upload_put(u, piece, sizeof piece, NULL), 0);
		if (!upload_full(u))
			continue;
		full++;
		while (upload_full(u))
			uv_run(&loop, UV_RUN_ONCE);
	}
	CU_ASSERT(full > 0);
	CU_ASSERT_EQUAL(seen.room, full);
	CU_ASSERT_EQUAL(files(), 0); /* it has no name */
	upload_end(u);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL_FATAL(seen.complete, 1);
	CU_ASSERT_EQUAL(lseek(seen.fd, 0, SEEK_END), 200 * (off_t)sizeof piece);
	for (unsigned i = 0; i < 200; i++) {
		memset(piece, (int)i, sizeof piece);
		CU_ASSERT_EQUAL(pread(seen.fd, back, sizeof back, (off_t)(i * sizeof back)), sizeof back);
		CU_ASSERT(!memcmp(piece, back, sizeof back));
	}
	CU_ASSERT(write(seen.fd, "x", 1) < 0); /* nobody it is given to may change it */
	settle(u);
	CU_ASSERT_EQUAL(seen.failed, 0);
}

static void test_empty(void)
{
	struct upload *u = begin(dir, 10);

	upload_end(u);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL_FATAL(seen.complete, 1);
	CU_ASSERT_EQUAL(lseek(seen.fd, 0, SEEK_END), 0);
	settle(u);
}

static void test_limit(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct upload *u = begin(dir, 1 << 20);
	static uint8_t piece[1 << 19];

	CU_ASSERT_EQUAL(upload_put(u, piece, sizeof piece, &err), 0);
	CU_ASSERT_EQUAL(upload_put(u, piece, sizeof piece, &err), 0);
	CU_ASSERT_EQUAL(upload_put(u, piece, 1, &err), -EFBIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "1 MiB allowed ([oci] max-image-mb)"));
	settle(u); /* while a worker writes */
	CU_ASSERT_EQUAL(seen.complete + seen.failed, 0);
	CU_ASSERT_EQUAL(files(), 0);
}

static void test_no_place(void)
{
	struct upload *u = begin("/nonexistent/place", 1 << 20);

	upload_put(u, "x", 1, NULL);
	upload_end(u);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL(seen.failed, 1);
	CU_ASSERT_EQUAL(seen.code, -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(seen.message, "/nonexistent/place"));
	settle(u);
	u = begin("/dev/full", 1 << 20); /* no directory */
	upload_put(u, "x", 1, NULL);
	upload_end(u);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL(seen.failed, 1);
	settle(u);
}

int main(void)
{
	static const CU_TestInfo tests[] = { { "whole", test_whole }, { "empty", test_empty }, { "limit", test_limit }, { "no place", test_no_place }, CU_TEST_INFO_NULL };
	static CU_SuiteInfo suites[] = { { "upload", NULL, NULL, NULL, NULL, (CU_TestInfo *)tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	uv_loop_init(&loop);
	pool = worker_pool_new(&loop, 4, NULL);
	if (!pool || !mkdtemp(dir) || CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	worker_pool_free(pool, 1000);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	path_remove_tree(dir, NULL);
	return failed != 0;
}
