/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"
#include "output.h"

#include <CUnit/Basic.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];

static void fresh(void) { record_remove(path); }

static void reads_what_was_appended(void)
{
	struct record *r;
	struct buf b = BUF_INIT;
	uint64_t pos = 0;
	int stream;

	fresh();
	r = record_open(path, NULL);
	CU_ASSERT_EQUAL(record_append(r, 1, 0, "hello ", 6, NULL), 0);
	CU_ASSERT_EQUAL(record_append(r, 2, 0, "world", 5, NULL), 0);
	CU_ASSERT_EQUAL(record_read(r, &pos, &stream, &b, NULL), 1);
	CU_ASSERT_EQUAL(stream, 1);
	CU_ASSERT_EQUAL(record_read(r, &pos, &stream, &b, NULL), 1);
	CU_ASSERT_EQUAL(stream, 2);
	CU_ASSERT_STRING_EQUAL((char *)b.data, "hello world");
	CU_ASSERT_EQUAL(record_read(r, &pos, &stream, &b, NULL), 0);
	CU_ASSERT_EQUAL(pos, record_end(r));
	buf_free(&b);
	record_close(r);
}

static void goes_on_after_a_restart_and_a_torn_chunk(void)
{
	struct record *r;
	struct stat st;

	fresh();
	r = record_open(path, NULL);
	record_append(r, 1, 0, "0123456789", 10, NULL);
	record_append(r, 1, 10, "abcdef", 6, NULL);
	record_close(r);
	stat(path, &st);
	CU_ASSERT_EQUAL(truncate(path, st.st_size - 2), 0);
	r = record_open(path, NULL);
	CU_ASSERT_EQUAL(record_stream_end(r, 1), 10);
	CU_ASSERT_EQUAL(record_append(r, 1, 10, "abcdef", 6, NULL), 0);
	CU_ASSERT_EQUAL(record_stream_end(r, 1), 16);
	record_close(r);
}

static void stays_bounded_and_positions_stay_true(void)
{
	static char block[60000];
	struct record *r;
	struct buf b = BUF_INIT;
	uint64_t offset = 0, pos = 0, seen;
	struct stat a, c;
	int stream, n = 0;

	fresh();
	r = record_open(path, NULL);
	record_append(r, 2, 0, "once", 4, NULL);
	for (int i = 0; i < 400; i++, offset += sizeof block) {
		memset(block, 'a' + i % 26, sizeof block);
		CU_ASSERT_EQUAL_FATAL(record_append(r, 0, offset, block, sizeof block, NULL), 0);
	}
	stat(path, &a);
	CU_ASSERT_TRUE(a.st_size < (off_t)RECORD_KEEP + 2 * (off_t)RECORD_CHUNK);
	{
		char old[80];

		snprintf(old, sizeof old, "%s.old", path);
		stat(old, &c);
	}
	CU_ASSERT_TRUE(c.st_size < (off_t)RECORD_KEEP + 2 * (off_t)RECORD_CHUNK);
	/* Whole chunks, the newest ones, in order, to the end. */
	while (record_read(r, &pos, &stream, &b, NULL) == 1) {
		n++;
		CU_ASSERT_EQUAL(b.len, sizeof block);
		CU_ASSERT_EQUAL(b.data[0], b.data[b.len - 1]);
		seen = b.data[0];
		buf_clear(&b);
	}
	CU_ASSERT_EQUAL(seen, 'a' + 399 % 26);
	CU_ASSERT_TRUE(n > 70);
	record_close(r);
	r = record_open(path, NULL);
	CU_ASSERT_EQUAL(record_end(r), pos);
	CU_ASSERT_EQUAL(record_stream_end(r, 0), offset);
	CU_ASSERT_EQUAL(record_stream_end(r, 2), 4); /* though its chunk is long gone */
	record_close(r);
	buf_free(&b);
}

struct view {
	struct buf got;
	size_t room;
	int ends, lag;
};

static bool can(void *user) { return ((struct view *)user)->room > 0; }

static void chunk(void *user, int stream, const void *data, size_t len)
{
	struct view *v = user;

	(void)stream;
	buf_append(&v->got, data, len);
	v->room = v->room > len ? v->room - len : 0;
}

static void ended(void *user) { ((struct view *)user)->ends++; }

static const struct output_viewer_ops view_ops = { can, chunk, ended };

static void lag(void *user, bool behind) { ((struct view *)user)->lag += behind ? 1 : -1; }

static void viewers_pull_at_their_own_pace(void)
{
	static char block[50000];
	struct output *o;
	struct view fast = { .room = 1u << 30 }, slow = { .room = 0 }, late = { .room = 1u << 30 };
	struct output_viewer *vs;

	fresh();
	o = output_new(path, NULL);
	output_on_lag(o, lag, &slow);
	output_view(o, false, true, false, &view_ops, &fast);
	vs = output_view(o, false, true, true, &view_ops, &slow);
	for (int i = 0; i < 10; i++)
		output_append(o, 1, (uint64_t)i * sizeof block, block, sizeof block, NULL);
	CU_ASSERT_EQUAL(fast.got.len, 10 * sizeof block);
	CU_ASSERT_EQUAL(slow.got.len, 0);
	CU_ASSERT_EQUAL(slow.lag, 1);
	slow.room = 1u << 30;
	output_viewer_pump(vs);
	CU_ASSERT_EQUAL(slow.got.len, 10 * sizeof block);
	CU_ASSERT_EQUAL(slow.lag, 0);
	output_viewer_pump(output_view(o, true, false, false, &view_ops, &late));
	CU_ASSERT_EQUAL(late.got.len, 10 * sizeof block);
	CU_ASSERT_EQUAL(late.ends, 1);
	CU_ASSERT_EQUAL(fast.ends, 0);
	output_end(o);
	CU_ASSERT_EQUAL(fast.ends, 1);
	CU_ASSERT_EQUAL(slow.ends, 1);
	output_free(o);
	buf_free(&fast.got);
	buf_free(&slow.got);
	buf_free(&late.got);
}

int main(void)
{
	char dir[] = "/tmp/test-record.XXXXXX";
	unsigned failed;
	CU_pSuite s;

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof path, "%s/out", dir);
	CU_initialize_registry();
	s = CU_add_suite("record", NULL, NULL);
	CU_add_test(s, "reads what was appended", reads_what_was_appended);
	CU_add_test(s, "goes on after a restart and a torn chunk", goes_on_after_a_restart_and_a_torn_chunk);
	CU_add_test(s, "stays bounded and positions stay true", stays_bounded_and_positions_stay_true);
	CU_add_test(s, "viewers pull at their own pace", viewers_pull_at_their_own_pace);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	path_remove_tree(dir, NULL);
	return failed ? 1 : 0;
}
