/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry source makes of answers and of its own cache: rules of names, versions and soundness. */
#include <CUnit/Basic.h>

#include "registry.h"

#include <string.h>

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void versions(void)
{
	static const char *const ascending[] = {
		"", "5.15", "6.1", "6.1.158", "6.9", "6.18-rc1", "6.18-rc2", "6.18-rc10", "6.18", "6.18-nvidia-595.45.04", "6.18-nvidia-610.43.02",
		"6.18-nvidia-610.43.10", "6.18.38", "6.18.38-nvidia-610.43.02", "7.1.20",
	};
	size_t n = sizeof ascending / sizeof *ascending;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			int r = version_compare(ascending[i], ascending[j]);

			CU_ASSERT_EQUAL((r > 0) - (r < 0), (i > j) - (i < j));
			if ((r > 0) - (r < 0) != (i > j) - (i < j))
				printf("\n  '%s' and '%s': %d\n", ascending[i], ascending[j], r);
		}
	CU_ASSERT_EQUAL(version_compare("6.018", "6.18"), 0);
	CU_ASSERT(version_compare("99999999999999999999999999", "99999999999999999999999998") > 0);
}

static bool inspects(const char *rest, struct variant *v)
{
	char json[2000];

	snprintf(json, sizeof json, "{\"type\":\"inspect\",\"digest\":\"" DIGEST "\",%s}", rest);
	return inspect_parse(json, strlen(json), v);
}

#define LABELS(format, flavor, version) "{\"dev.edera.kernel.format\":" format ",\"dev.edera.kernel.flavor\":" flavor ",\"dev.edera.kernel.version\":" version "}"

static void answers(void)
{
	struct variant v;

	CU_ASSERT(inspects("\"annotations\":" LABELS("\"1\"", "\"zone\"", "\"6.18\"") ",\"labels\":{}", &v));
	CU_ASSERT_STRING_EQUAL(v.name, "zone");
	CU_ASSERT_STRING_EQUAL(v.version, "6.18");
	CU_ASSERT_STRING_EQUAL(v.digest, DIGEST);
	CU_ASSERT(inspects("\"labels\":" LABELS("\"1\"", "\"zone\"", "\"6.18\""), &v));
	CU_ASSERT(inspects("\"annotations\":" LABELS("\"2\"", "\"a\"", "\"1\"") ",\"labels\":" LABELS("\"1\"", "\"b\"", "\"1\""), &v));
	CU_ASSERT_STRING_EQUAL(v.name, "b");
	CU_ASSERT(inspects("\"annotations\":{\"dev.edera.kernel.variant\":\"nv\",\"dev.edera.kernel.format\":\"1\",\"dev.edera.kernel.flavor\":\"x\","
			   "\"dev.edera.kernel.version\":\"1\"}", &v));
	CU_ASSERT_STRING_EQUAL(v.name, "nv");
	CU_ASSERT_FALSE(inspects("\"annotations\":" LABELS("1", "\"zone\"", "\"6.18\""), &v));
	CU_ASSERT_FALSE(inspects("\"annotations\":" LABELS("\"1\"", "\"\"", "\"6.18\""), &v));
	CU_ASSERT_FALSE(inspects("\"annotations\":" LABELS("\"1\"", "\"zone\"", "null"), &v));
	CU_ASSERT_FALSE(inspects("\"annotations\":[]", &v));
	CU_ASSERT_FALSE(inspects("\"annotations\":null", &v));
	CU_ASSERT_FALSE(inspect_parse("{\"type\":\"result\"}", 17, &v));
	CU_ASSERT_FALSE(inspect_parse("[]", 2, &v));
	CU_ASSERT_FALSE(inspect_parse("", 0, &v));
}

static struct variant variant(const char *name, const char *tag, const char *version)
{
	struct variant v = { .digest = DIGEST };

	snprintf(v.name, sizeof v.name, "%s", name);
	snprintf(v.tag, sizeof v.tag, "%s", tag);
	snprintf(v.version, sizeof v.version, "%s", version);
	return v;
}

static void newest_wins(void)
{
	static const char *const tags[] = { "6.18", "latest", "6.18.38", "stable", "6" };
	struct catalog c = { 0 };

	for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
		struct variant v = variant("zone", tags[i], "6.18.38");

		CU_ASSERT_EQUAL(catalog_add(&c, &v), 0);
	}
	CU_ASSERT_EQUAL(c.n, 1);
	CU_ASSERT_STRING_EQUAL(c.list[0].tag, "6.18.38");
	catalog_add(&c, &(struct variant){ .name = "zone", .tag = "x", .version = "6.9", .digest = DIGEST });
	CU_ASSERT_STRING_EQUAL(c.list[0].tag, "6.18.38");
	catalog_add(&c, &(struct variant){ .name = "zone", .tag = "x", .version = "7.0", .digest = DIGEST });
	CU_ASSERT_STRING_EQUAL(c.list[0].tag, "x");
	catalog_free(&c);
}

static void unsound_is_left_out(void)
{
	const struct variant bad[] = {
		variant("", "t", "1"), variant("a b", "t", "1"), variant(".x", "t", "1"), variant("x", "", "1"), variant("x", "a/b", "1"),
		variant("x", "-t", "1"), variant("x", "t", ""), variant("x", "t", "1 2"), variant("x", "t", "1\n"), { .name = "x", .tag = "t", .version = "1" },
		{ .name = "x", .tag = "t", .version = "1", .digest = "sha256:XYZ" },
	};
	struct catalog c = { 0 };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CU_ASSERT_EQUAL(catalog_add(&c, &bad[i]), 0);
	CU_ASSERT_EQUAL(c.n, 0);
	catalog_free(&c);
}

static void cache_file(void)
{
	static const char good[] = "{\"format\":1,\"repository\":\"r/x\",\"fetched\":77,\"variants\":["
				   "{\"name\":\"a\",\"tag\":\"t\",\"version\":\"1\",\"digest\":\"" DIGEST "\"},7,{},{\"name\":[]}]}";
	struct catalog c = { 0 };

	CU_ASSERT_EQUAL(catalog_parse(good, sizeof good - 1, "r/x", &c), 0);
	CU_ASSERT_EQUAL(c.n, 1);
	CU_ASSERT_EQUAL(c.fetched, 77);
	catalog_free(&c);
	CU_ASSERT_EQUAL(catalog_parse(good, sizeof good - 1, "r/y", &c), -EINVAL);
	CU_ASSERT_EQUAL(catalog_parse(good, sizeof good - 2, "r/x", &c), -EINVAL);
	CU_ASSERT_EQUAL(catalog_parse("{\"format\":2,\"repository\":\"r\",\"variants\":[]}", 43, "r", &c), -EINVAL);
	CU_ASSERT_EQUAL(catalog_parse("{}", 2, "r", &c), -EINVAL);
	CU_ASSERT_EQUAL(catalog_parse("7", 1, "r", &c), -EINVAL);
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "versions", versions }, { "answers of the provider", answers }, { "newest wins", newest_wins },
		{ "what is not sound is left out", unsound_is_left_out }, { "the cache's file", cache_file }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "registry variants", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	if (CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed ? 1 : 0;
}
