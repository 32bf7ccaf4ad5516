/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's parsers that need no image: origins, platforms, challenges, credentials, digests, JSON. */
#include "auth.h"
#include "digest.h"
#include "origin.h"
#include "platform.h"
#include "url.h"
#include "base/error.h"
#include "base/text.h"

#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHA "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const char *canonical(const char *text)
{
	static char out[ORIGIN_CAP];
	struct origin o;

	if (origin_parse(text, &o, NULL))
		return "";
	origin_text(&o, out);
	return out;
}

/* RFC 3986, 5.4, and what a redirect may not be. */
static void test_addresses(void)
{
	static const struct {
		const char *reference, *to;
	} joins[] = {
		{ "/x", "https://h:5000/x" }, { "x?y=1", "https://h:5000/a/x?y=1" }, { "../x", "https://h:5000/x" }, { "?n=2", "https://h:5000/a/b?n=2" },
		{ "//other/x", "https://other/x" }, { "http://other/", "http://other/" }, { "https://h:5000/x#f", "https://h:5000/x" }, { "file:///etc/passwd", NULL },
		{ "ftp://h/x", NULL }, { "https://u:p@h/x", NULL }, { "https://u@h/x", NULL }, { "https://", NULL }, { "http://[::1", NULL }, { "javascript:x", NULL },
	};
	static const struct {
		const char *a, *b;
		bool same;
	} origins[] = {
		{ "https://h/x", "https://h/y", true }, { "https://h", "https://H:443/", true }, { "http://h", "http://h:80", true }, { "http://h", "https://h", false },
		{ "https://h", "https://h:444", false }, { "https://h", "https://h.example", false }, { "https://h", "nonsense://", false },
	};

	for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
		char *to = url_join("https://h:5000/a/b?c=d", joins[i].reference);

		CU_ASSERT_STRING_EQUAL(to ? to : "none", joins[i].to ? joins[i].to : "none");
		free(to);
	}
	for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
		CU_ASSERT_EQUAL(url_same_origin(origins[i].a, origins[i].b), origins[i].same);
}

static void test_flatten(void)
{
	char text[] = "a\n\x1b[31m\xc2\x9b\xe2\x80\xa8\xe2\x80\xae\x9b\xc3\xa9\x7f.";

	text_flatten(text);
	CU_ASSERT_STRING_EQUAL(text, "a  [31m         \xc3\xa9 .");
}

/* From distribution/reference's reference_test.go and normalize_test.go. */
static void test_references(void)
{
	static const char *const good[][2] = {
		{ "ubuntu", "docker.io/library/ubuntu:latest" },
		{ "user/app", "docker.io/user/app:latest" },
		{ "docker.io/ubuntu", "docker.io/library/ubuntu:latest" },
		{ "index.docker.io/ubuntu:22.04", "docker.io/library/ubuntu:22.04" },
		{ "localhost:5000/x", "localhost:5000/x:latest" },
		{ "localhost/x", "localhost/x:latest" },
		{ "host:5000", "docker.io/library/host:5000" },
		{ "Upper/x", "Upper/x:latest" },
		{ "[::1]:5000/x", "[::1]:5000/x:latest" },
		{ "[2001:db8::1]/x:y", "[2001:db8::1]/x:y" },
		{ "test.com:5000/repo:tag@sha256:" SHA, "test.com:5000/repo:tag@sha256:" SHA },
		{ "repo@sha256:" SHA, "docker.io/library/repo@sha256:" SHA },
		{ "a/a/a/a/a/a/a", "docker.io/a/a/a/a/a/a/a:latest" },
		{ "aa/asdf$$^/aa", "" },
		{ "foo.com/foo-bar", "foo.com/foo-bar:latest" },
		{ "foo__bar", "docker.io/library/foo__bar:latest" },
		{ "b.gcr.io/test.example.com/my-app:test.example.com", "b.gcr.io/test.example.com/my-app:test.example.com" },
		{ "xn--n3h.com/myimage:xn--n3h.com", "xn--n3h.com/myimage:xn--n3h.com" },
		{ SHA ":tag", "docker.io/library/" SHA ":tag" },
		{ "docker://quay.io/x/y", "quay.io/x/y:latest" },
	};
	static const char *const bad[] = {
		"", ":justtag", "@sha256:" SHA, "repo@sha256:ffff", "repo@md5:d41d8cd98f00b204e9800998ecf8427e", "Uppercase:tag", "test:5000/Uppercase/lowercase:tag", "aa/../bb",
		"foo/foo_bar.com:8080/x:.tag", "a//b", "/a", "a/", "a-/b", "foo._bar/x", "foo___bar", "-foo/x", "foo..bar", "localhost:", "repo:", "repo:-tag", SHA,
		"[fe80::1%eth0]/x", "[::1", "host:123456/x", "a b", "x\n",
	};
	char text[400];

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		CU_ASSERT_STRING_EQUAL(canonical(good[i][0]), good[i][1]);
		if (strcmp(canonical(good[i][0]), good[i][1]))
			printf("  %s -> %s\n", good[i][0], canonical(good[i][0]));
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CU_ASSERT_STRING_EQUAL(canonical(bad[i]), "");
		if (*canonical(bad[i]))
			printf("  %s -> %s\n", bad[i], canonical(bad[i]));
	}
	/* 64 bytes, but no ID of an image. */
	snprintf(text, sizeof text, "%050d.example/%03d:l", 1, 0);
	CU_ASSERT(strlen(text) == 64 && strlen(canonical(text)) > 0);
	snprintf(text, sizeof text, "h.io/%0255d", 0);
	CU_ASSERT(strlen(canonical(text)) == 5 + 255 + 7);
	snprintf(text, sizeof text, "h.io/%0256d", 0);
	CU_ASSERT_STRING_EQUAL(canonical(text), "");
	snprintf(text, sizeof text, "h.io/x:%0128d", 0);
	CU_ASSERT(strlen(canonical(text)) == 7 + 128);
	snprintf(text, sizeof text, "h.io/x:%0129d", 0);
	CU_ASSERT_STRING_EQUAL(canonical(text), "");
}

static void test_places(void)
{
	struct origin o;

	CU_ASSERT_EQUAL_FATAL(origin_parse("oci:/a:b/c:d", &o, NULL), 0);
	CU_ASSERT_EQUAL(o.kind, ORIGIN_LAYOUT);
	CU_ASSERT_STRING_EQUAL(o.file, "/a:b/c");
	CU_ASSERT_STRING_EQUAL(o.tag, "d");
	CU_ASSERT_EQUAL_FATAL(origin_parse("oci:dir", &o, NULL), 0);
	CU_ASSERT_STRING_EQUAL(o.file, "dir");
	CU_ASSERT_STRING_EQUAL(o.tag, "");
	CU_ASSERT_EQUAL_FATAL(origin_parse("oci:dir@sha256:" SHA, &o, NULL), 0);
	CU_ASSERT_STRING_EQUAL(o.digest, "sha256:" SHA);
	CU_ASSERT_EQUAL_FATAL(origin_parse("docker-archive:/x.tar:busybox:1", &o, NULL), 0);
	CU_ASSERT_STRING_EQUAL(o.file, "/x.tar");
	CU_ASSERT_STRING_EQUAL(o.name, "docker.io/library/busybox:1");
	CU_ASSERT_NOT_EQUAL(origin_parse("oci:", &o, NULL), 0);
	CU_ASSERT_NOT_EQUAL(origin_parse("oci::x", &o, NULL), 0);
	CU_ASSERT_NOT_EQUAL(origin_parse("oci:x:", &o, NULL), 0);
	CU_ASSERT_NOT_EQUAL(origin_parse("docker-archive:x:NOT A REF", &o, NULL), 0);
}

static int rank(const char *want, const char *os, const char *arch, const char *variant)
{
	struct platform w, h;

	CU_ASSERT_EQUAL_FATAL(platform_parse(want, &w, NULL), 0);
	platform_normalize(os, arch, variant, &h);
	return platform_rank(&w, &h);
}

static void test_platforms(void)
{
	struct platform p;

	CU_ASSERT(rank("linux/amd64", "linux", "amd64", NULL) > 0);
	CU_ASSERT(rank("linux/amd64", "linux", "x86_64", NULL) > 0);
	CU_ASSERT_EQUAL(rank("linux/amd64", "windows", "amd64", NULL), 0);
	CU_ASSERT_EQUAL(rank("linux/amd64", "linux", "amd64", "v2"), 0);
	CU_ASSERT(rank("linux/amd64/v3", "linux", "amd64", "v2") > rank("linux/amd64/v3", "linux", "amd64", NULL));
	CU_ASSERT(rank("linux/arm64", "linux", "arm64", "8") > 0);
	CU_ASSERT(rank("linux/arm/v7", "linux", "arm", "v6") > rank("linux/arm/v7", "linux", "arm", "v5"));
	CU_ASSERT_EQUAL(rank("linux/arm/v6", "linux", "arm", "v7"), 0);
	CU_ASSERT_EQUAL(rank("linux/386", "linux", "amd64", NULL), 0);
	CU_ASSERT_EQUAL(rank("linux/amd64", NULL, NULL, NULL), 0);
	CU_ASSERT_NOT_EQUAL(platform_parse("linux", &p, NULL), 0);
	CU_ASSERT_NOT_EQUAL(platform_parse("linux/", &p, NULL), 0);
	CU_ASSERT_NOT_EQUAL(platform_parse("linux/amd64/", &p, NULL), 0);
	CU_ASSERT_NOT_EQUAL(platform_parse("linux/amd64/v2/x", &p, NULL), 0);
}

static struct challenge challenge(const char *lines)
{
	struct challenge c;

	challenge_parse(lines, strlen(lines), &c);
	return c;
}

static void test_challenges(void)
{
	struct challenge c = challenge("Bearer realm=\"https://a/t?x=y\",service=\"a, \\\"b\\\"\",scope=\"repository:x:pull,push\"\n");

	CU_ASSERT(c.bearer && !c.basic);
	CU_ASSERT_STRING_EQUAL(c.realm, "https://a/t?x=y");
	CU_ASSERT_STRING_EQUAL(c.service, "a, \"b\"");
	CU_ASSERT_STRING_EQUAL(c.scope, "repository:x:pull,push");
	c = challenge("Negotiate\nBasic realm=\"r\"\nbearer REALM = x , service=y\n");
	CU_ASSERT(c.bearer && c.basic);
	CU_ASSERT_STRING_EQUAL(c.realm, "x");
	CU_ASSERT_STRING_EQUAL(c.service, "y");
	c = challenge("Negotiate dG9rZW4=, Basic realm=\"Bearer realm=evil\"");
	CU_ASSERT(!c.bearer && c.basic);
	c = challenge("Bearer");
	CU_ASSERT(!c.bearer);
	c = challenge("Bearer realm=\"unterminated");
	CU_ASSERT_STRING_EQUAL(c.realm, "unterminated");
	c = challenge("Bearer realm=a, Bearer realm=b"); /* the first one counts */
	CU_ASSERT_STRING_EQUAL(c.realm, "a");
	c = challenge(",,, =x \"\", Basic");
	CU_ASSERT(c.basic);
	challenge_parse(NULL, 0, &c);
	CU_ASSERT(!c.basic && !c.bearer);
}

static const char *user_for(const char *json, const char *host, const char *path)
{
	static char user[64];
	_json_ json_object *o = NULL;
	struct credentials c;

	CU_ASSERT_EQUAL_FATAL(json_read(json, strlen(json), &o, NULL), 0);
	if (auth_lookup(o, host, path, &c, NULL))
		return "error";
	snprintf(user, sizeof user, "%s", c.user ? c.user : "");
	credentials_free(&c);
	return user;
}

static void test_auth(void)
{
	static const char file[] = "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"aHViOng=\"},\"r.io\":{\"username\":\"plain\",\"password\":\"x\"},"
				   "\"r.io/team\":{\"auth\":\"dGVhbTp4OnkK\"},\"r.io/team/app\":{\"username\":\"app\",\"password\":\"x\"},\"bad.io\":{\"auth\":\"%%\"},"
				   "\"no-colon.io\":{\"auth\":\"eHg=\"},\"odd.io\":5,\"tok.io\":{\"identitytoken\":\"t\"}}}";

	CU_ASSERT_STRING_EQUAL(user_for(file, "docker.io", "library/x"), "hub");
	CU_ASSERT_STRING_EQUAL(user_for(file, "r.io", "other"), "plain");
	CU_ASSERT_STRING_EQUAL(user_for(file, "r.io", "teamwork"), "plain");
	CU_ASSERT_STRING_EQUAL(user_for(file, "r.io", "team/x"), "team");
	CU_ASSERT_STRING_EQUAL(user_for(file, "r.io", "team/app"), "app");
	CU_ASSERT_STRING_EQUAL(user_for(file, "r.io:443", "x"), "");
	CU_ASSERT_STRING_EQUAL(user_for(file, "bad.io", "x"), "error");
	CU_ASSERT_STRING_EQUAL(user_for(file, "no-colon.io", "x"), "error");
	CU_ASSERT_STRING_EQUAL(user_for(file, "odd.io", "x"), "");
	CU_ASSERT_STRING_EQUAL(user_for("{}", "r.io", "x"), "");
	CU_ASSERT_STRING_EQUAL(user_for("[]", "r.io", "x"), "");
}

static void test_digests(void)
{
	char d[DIGEST_MAX];

	CU_ASSERT_EQUAL(digest_of("", 0, "sha256:", d, NULL), 0);
	CU_ASSERT_STRING_EQUAL(d, "sha256:" SHA);
	CU_ASSERT_EQUAL(digest_of("abc", 3, "sha512:", d, NULL), 0);
	CU_ASSERT_STRING_EQUAL(d, "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
	CU_ASSERT_EQUAL(digest_check("sha256:" SHA, NULL), 0);
	CU_ASSERT_NOT_EQUAL(digest_check("sha256:" SHA "0", NULL), 0);
	CU_ASSERT_NOT_EQUAL(digest_check("sha512:" SHA, NULL), 0);
	CU_ASSERT_NOT_EQUAL(digest_check("sha256:../../x", NULL), 0);
	CU_ASSERT_NOT_EQUAL(digest_check(SHA, NULL), 0);
}

static int json(const char *text)
{
	_json_ json_object *o = NULL;

	return json_read(text, strlen(text), &o, NULL);
}

static void test_json(void)
{
	CU_ASSERT_EQUAL(json(" {\"a\": [1, \"x\\\"[\", null]} \n"), 0);
	CU_ASSERT_NOT_EQUAL(json(""), 0);
	CU_ASSERT_NOT_EQUAL(json("{"), 0);
	CU_ASSERT_NOT_EQUAL(json("{} x"), 0);
	CU_ASSERT_NOT_EQUAL(json("{\"a\": \"\xff\"}"), 0);
	CU_ASSERT_EQUAL(json("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"), 0);
	CU_ASSERT_EQUAL(json("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"), -E2BIG);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "addresses", test_addresses }, { "flatten", test_flatten }, { "references", test_references }, { "places", test_places }, { "platforms", test_platforms }, { "challenges", test_challenges },
		{ "auth", test_auth }, { "digests", test_digests }, { "json", test_json }, CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { "provider", NULL, NULL, NULL, NULL, (CU_TestInfo *)tests }, CU_SUITE_INFO_NULL };

	if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
		return 2;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();

	CU_cleanup_registry();
	return failed != 0;
}
