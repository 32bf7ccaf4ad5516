/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials handed to the provider: those of the registry that is asked, and no others. The forms are those of docker's config.json. */
#include <CUnit/Basic.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/oci_auth.h"

#include <string.h>
#include <sys/stat.h>

static char dir[] = "/tmp/test-oci-auth.XXXXXX";

static const char *file(const char *text)
{
	static char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/auth.json", dir);
	path_write_file(path, text, strlen(text), 0600, NULL);
	return path;
}

/* What is collected is `want`, or the failure's sentence holds it. */
static void collects(const struct oci_auth_request *q, int code, const char *want)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_buf_ struct buf b = BUF_INIT;

	CU_ASSERT_EQUAL(oci_auth_collect(q, &b, &err), code);
	if (code) {
		CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, want));
	} else {
		CU_ASSERT_STRING_EQUAL(b.data ? (char *)b.data : "", want);
	}
	if (code ? !strstr(err.msg, want) : strcmp(b.data ? (char *)b.data : "", want) != 0)
		printf("\n  got:  %s %s\n  want: %s\n", b.data ? (char *)b.data : "", err.msg, want);
}

static const char many[] =
	"{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"aHVi\"},\"ghcr.io\":{\"auth\":\"Z2g=\"},\"ghcr.io/org\":{\"auth\":\"b3Jn\"},"
	"\"localhost:5000\":{\"auth\":\"bG8=\"},\"mirror.example\":{\"auth\":\"bWk=\"},\"empty.example\":{},\"odd.example\":7}}";

static void only_the_registry_asked(void)
{
	struct oci_auth_request q = { .registry = "ghcr.io", .file = file(many) };

	collects(&q, 0, "{\"auths\":{\"ghcr.io\":{\"auth\":\"Z2g=\"},\"ghcr.io/org\":{\"auth\":\"b3Jn\"}}}");
	q.registry = "localhost:5000";
	collects(&q, 0, "{\"auths\":{\"localhost:5000\":{\"auth\":\"bG8=\"}}}");
	q.registry = "localhost";
	collects(&q, 0, "");
	q.registry = "docker.io";
	collects(&q, 0, "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"aHVi\"}}}");
	q.registry = "empty.example";
	collects(&q, 0, "");
	q.registry = "odd.example";
	collects(&q, 0, "");
	q.registry = "ghcr.io.evil.example";
	collects(&q, 0, "");
}

static void mirrors(void)
{
	struct oci_auth_request q = { .registry = "docker.io", .mirror = "mirror.example", .file = file(many) };

	collects(&q, 0, "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"aHVi\"},\"mirror.example\":{\"auth\":\"bWk=\"}}}");
	q.registry = "ghcr.io";
	collects(&q, 0, "{\"auths\":{\"ghcr.io\":{\"auth\":\"Z2g=\"},\"ghcr.io/org\":{\"auth\":\"b3Jn\"}}}");
}

static void the_callers_win(void)
{
	struct oci_auth_request q = { .registry = "ghcr.io", .file = file("{\"auths\":{\"ghcr.io\":{\"auth\":\"b2xk\"}}}") };

	q.call_json = "{\"auths\":{\"ghcr.io\":{\"auth\":\"bmV3\"},\"quay.io\":{\"auth\":\"cQ==\"}}}";
	collects(&q, 0, "{\"auths\":{\"ghcr.io\":{\"auth\":\"bmV3\"}}}");
	/* A client of the socket may not make the daemon run programs. */
	q.call_json = "{\"credsStore\":\"evil\",\"credHelpers\":{\"ghcr.io\":\"evil\"}}";
	q.helpers = true;
	collects(&q, 0, "{\"auths\":{\"ghcr.io\":{\"auth\":\"b2xk\"}}}");
}

static void broken(void)
{
	struct oci_auth_request q = { .registry = "ghcr.io", .file = file("{\"auths\":") };

	collects(&q, -EINVAL, "auth.json' is not in the form of Docker's config.json");
	q.file = file("[1]");
	collects(&q, -EINVAL, "expected an object");
	q.file = file("{\"a\":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}");
	collects(&q, -EINVAL, "nesting");
	q.file = "/nonexistent/auth.json";
	collects(&q, 0, "");
	q.call_json = "not json";
	collects(&q, -EINVAL, "what was given as credentials is not in the form");
}

static void put_helper(const char *name, const char *script)
{
	char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/docker-credential-%s", dir, name);
	path_write_file(path, script, strlen(script), 0755, NULL);
}

static void helpers(void)
{
	struct oci_auth_request q = { .registry = "ghcr.io", .helpers = true };

	q.file = file("{\"credHelpers\":{\"ghcr.io\":\"no-such-helper\"}}");
	collects(&q, -ENOENT, "docker-credential-no-such-helper is not installed");
	q.file = file("{\"credsStore\":\"../../bin/sh\"}");
	collects(&q, -EINVAL, "is not allowed");
	q.helper_dir = dir;
	put_helper("protect-test", "#!/bin/sh\nread -r s\n[ \"$1\" = get ] && echo \"{\\\"ServerURL\\\":\\\"$s\\\",\\\"Username\\\":\\\"me\\\",\\\"Secret\\\":\\\"for $s\\\"}\"\n");
	put_helper("protect-token", "#!/bin/sh\necho '{\"Username\":\"<token>\",\"Secret\":\"abc\"}'\n");
	put_helper("protect-none", "#!/bin/sh\necho credentials not found in native keychain\nexit 1\n");
	q.file = file("{\"credsStore\":\"protect-test\"}");
	collects(&q, 0, "{\"auths\":{\"ghcr.io\":{\"auth\":\"bWU6Zm9yIGdoY3IuaW8=\"}}}");
	q.registry = "docker.io";
	collects(&q, 0, "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"bWU6Zm9yIGh0dHBzOi8vaW5kZXguZG9ja2VyLmlvL3YxLw==\"}}}");
	q.file = file("{\"credsStore\":\"protect-none\",\"credHelpers\":{\"ghcr.io\":\"protect-token\"}}");
	collects(&q, 0, "");
	q.registry = "ghcr.io";
	collects(&q, 0, "{\"auths\":{\"ghcr.io\":{\"identitytoken\":\"abc\"}}}");
	put_helper("protect-sealed", "#!/bin/sh\necho the vault is sealed\nexit 3\n");
	q.file = file("{\"credsStore\":\"protect-sealed\"}");
	collects(&q, -EIO, "failed for ghcr.io: the vault is sealed");
	put_helper("protect-env", "#!/bin/sh\necho '{\"Username\":\"u\",\"Secret\":\"'$WHO'\"}'\n");
	q.file = file("{\"credsStore\":\"protect-env\"}");
	q.helper_env = (const char *const[]){ "WHO=me", "PATH=/bin:/usr/bin", NULL };
	collects(&q, 0, "{\"auths\":{\"ghcr.io\":{\"auth\":\"dTptZQ==\"}}}");
	q.helper_path = "relative:/nonexistent";
	collects(&q, -ENOENT, "docker-credential-protect-env is not installed");
	q.helpers = false;
	collects(&q, 0, "");
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "only the registry asked", only_the_registry_asked }, { "mirrors", mirrors }, { "the caller's win", the_callers_win },
		{ "broken", broken }, { "helpers", helpers }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "credentials", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	if (!mkdtemp(dir) || CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	path_remove_tree(dir, NULL);
	return failed ? 1 : 0;
}
