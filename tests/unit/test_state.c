/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"
#include "state.h"

#include <CUnit/Basic.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char path[64];

static void fresh(void)
{
	char more[80];

	remove(path);
	snprintf(more, sizeof more, "%s-wal", path);
	remove(more);
	snprintf(more, sizeof more, "%s-shm", path);
	remove(more);
}

static PbZone *zone(const char *id, const char *name)
{
	PbZone *z = pb_xcalloc(1, sizeof *z);

	protect__control__v1__zone__init(z);
	z->spec = pb_xcalloc(1, sizeof *z->spec);
	protect__control__v1__zone_spec__init(z->spec);
	pb_set(&z->id, id);
	pb_set(&z->spec->name, name);
	return z;
}

struct seen { int n; uint32_t uid; char name[64]; };

static int see(void *user, PbZone *z, uint32_t uid)
{
	struct seen *s = user;

	s->n++;
	s->uid = uid;
	snprintf(s->name, sizeof s->name, "%s", z->spec->name);
	pb_free(z);
	return 0;
}

static void zones_survive(void)
{
	struct seen seen = { 0 };
	struct state *s;
	PbZone *z = zone("id-1", "first");

	fresh();
	s = state_open(path, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	CU_ASSERT_EQUAL(state_put_zone(s, z, 7, NULL), 0);
	pb_set(&z->spec->name, "renamed");
	CU_ASSERT_EQUAL(state_put_zone(s, z, 8, NULL), 0);
	state_close(s);
	s = state_open(path, NULL);
	CU_ASSERT_EQUAL(state_each_zone(s, see, &seen, NULL), 0);
	CU_ASSERT_EQUAL(seen.n, 1);
	CU_ASSERT_EQUAL(seen.uid, 8);
	CU_ASSERT_STRING_EQUAL(seen.name, "renamed");
	CU_ASSERT_EQUAL(state_delete_zone(s, "id-1", NULL), 0);
	seen.n = 0;
	CU_ASSERT_EQUAL(state_each_zone(s, see, &seen, NULL), 0);
	CU_ASSERT_EQUAL(seen.n, 0);
	state_close(s);
	pb_free(z);
}

static void run_sql(const char *sql)
{
	sqlite3 *db;

	sqlite3_open(path, &db);
	CU_ASSERT_EQUAL(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void a_newer_schema_is_refused_and_left_alone(void)
{
	struct edera_error err = EDERA_ERROR_INIT;

	fresh();
	state_close(state_open(path, NULL));
	run_sql("PRAGMA user_version = 999");
	CU_ASSERT_PTR_NULL(state_open(path, &err));
	CU_ASSERT_EQUAL(err.code, -ENOTSUP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "999"));
}

static void a_broken_record_is_an_error_not_a_lost_zone(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct seen seen = { 0 };
	struct state *s;

	fresh();
	state_close(state_open(path, NULL));
	run_sql("INSERT INTO zone VALUES ('x', 1, x'0affffffff')");
	s = state_open(path, NULL);
	CU_ASSERT_TRUE(state_each_zone(s, see, &seen, &err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, path));
	state_close(s);
}

static void a_file_that_is_no_database_is_an_error(void)
{
	struct edera_error err = EDERA_ERROR_INIT;

	fresh();
	path_write_file(path, "this is text, quite long enough to be looked at", 47, 0600, NULL);
	CU_ASSERT_PTR_NULL(state_open(path, &err));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, path));
	remove(path);
}

int main(void)
{
	char dir[] = "/tmp/test-state.XXXXXX";
	unsigned failed;
	CU_pSuite s;

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof path, "%s/protect.db", dir);
	CU_initialize_registry();
	s = CU_add_suite("state", NULL, NULL);
	CU_add_test(s, "zones survive", zones_survive);
	CU_add_test(s, "a newer schema is refused and left alone", a_newer_schema_is_refused_and_left_alone);
	CU_add_test(s, "a broken record is an error, not a lost zone", a_broken_record_is_an_error_not_a_lost_zone);
	CU_add_test(s, "a file that is no database is an error", a_file_that_is_no_database_is_an_error);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	path_remove_tree(dir, NULL);
	return failed ? 1 : 0;
}
