/* SPDX-License-Identifier: Apache-2.0 */
/* The image store against a host whose provider is a few lines here: what it keeps, shares, replaces, and leaves behind. */
#include "store.h"
#include "base/cleanup.h"

#include <CUnit/Basic.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define D1 "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "sha256:2222222222222222222222222222222222222222222222222222222222222222"
#define INDEX "sha256:3333333333333333333333333333333333333333333333333333333333333333"

static char cache[PATH_CAP];
static struct {
	pthread_mutex_t lock;
	const char *digest, *source, *content;
	int fail;             /* errno, or 0 */
	const char *file;     /* of a kernel image */
	useconds_t delay;
	char asked[REFERENCE_CAP]; /* for what */
	int archive;
	unsigned runs, warnings;
} provider = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void say(const struct edera_oci_run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct edera_oci_run *run, const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	run->line(run->user, line, strlen(line));
}

static bool has(const struct edera_oci_run *run, const char *option, const char *value)
{
	for (size_t i = 0; run->args[i] && run->args[i + 1]; i++)
		if (!strcmp(run->args[i], option) && !strcmp(run->args[i + 1], value))
			return true;
	return false;
}

static void write_at(int dir, const char *name, const char *text)
{
	_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT, 0600);

	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static int run_provider(void *core, const struct edera_call *call, const struct edera_oci_run *run, struct edera_error *err)
{
	size_t n = 0;

	__atomic_add_fetch(&provider.runs, 1, __ATOMIC_SEQ_CST);
	while (run->args[n + 1])
		n++;
	pthread_mutex_lock(&provider.lock);
	snprintf(provider.asked, sizeof provider.asked, "%s", run->args[n]);
	provider.archive = run->flags & EDERA_OCI_ARCHIVE ? run->archive_fd : -1;
	pthread_mutex_unlock(&provider.lock);
	say(run, "{\"type\":\"progress\",\"phase\":\"layer-download\",\"current\":5,\"total\":10,\"layers\":[{\"id\":\"" D1
		 "\",\"phase\":\"downloading\",\"current\":5,\"total\":10},{\"id\":\"nonsense\"},7]}");
	say(run, "nonsense");
	say(run, "{\"type\":\"result\",\"digest\":\"../../etc\"}");
	usleep(provider.delay);
	if (provider.fail)
		return err_set(err, provider.fail, "the registry is not there");
	if (has(run, "--have", provider.digest)) {
		say(run, "{\"type\":\"result\",\"digest\":\"%s\",\"source_digest\":\"\",\"cached\":true}", provider.digest);
		return 0;
	}
	if (has(run, "--format", "directory")) {
		CU_ASSERT_EQUAL(mkdirat(run->output_fd, "kernel", 0700), 0);
		_close_ int dir = openat(run->output_fd, "kernel", O_RDONLY | O_DIRECTORY);

		write_at(dir, "image", provider.content);
		if (provider.file && !strcmp(provider.file, "link")) {
			CU_ASSERT_EQUAL(symlinkat("/etc/passwd", dir, "metadata"), 0);
		} else if (provider.file) {
			write_at(dir, provider.file, "x");
		}
	} else {
		CU_ASSERT(write(run->output_fd, provider.content, strlen(provider.content)) > 0);
	}
	say(run, "{\"type\":\"result\",\"digest\":\"%s\",\"source_digest\":\"%s\",\"manifest\":\"e30=\",\"config\":\"eyJhIjoxfQ==\"%s}", provider.digest, provider.source,
	    run->flags & EDERA_OCI_ARCHIVE ? ",\"names\":[\"in/archive:latest\",7,\"NOT A NAME\",\"with@" D1 "\",\"oci:/etc\"]" : "");
	return 0;
}

static const char *host_path(void *core, enum edera_path which) { return cache; }
static int64_t host_int(const struct edera_conf *c, const char *key) { return 1; }
static const char *host_str(const struct edera_conf *c, const char *key) { return ""; }
static int host_bool(const struct edera_conf *c, const char *key) { return 1; }
static void host_log(void *core, int priority, const char *message) { provider.warnings++; }

static const struct edera_host host = { .size = sizeof host, .path = host_path, .conf_str = host_str, .conf_int = host_int, .conf_bool = host_bool, .log = host_log, .oci_run = run_provider };
static struct store *store;

static int begin(void)
{
	strcpy(cache, "/tmp/image-store.XXXXXX");
	if (!mkdtemp(cache) || store_open(&host, NULL, &store, NULL))
		return -1;
	provider.digest = D1;
	provider.source = "";
	provider.content = "one";
	provider.fail = 0;
	provider.file = NULL;
	provider.delay = 0;
	provider.runs = provider.warnings = 0;
	return 0;
}

static unsigned leftovers(void)
{
	_closedir_ DIR *d = opendir(store->work);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	return n - 2;
}

static int end(void)
{
	unsigned left = leftovers();

	store_free(store);
	path_remove_tree(cache, NULL);
	return left ? -1 : 0;
}

static unsigned reports, last_phase;
static void on_progress(void *user, const struct edera_pull_progress *p)
{
	__atomic_add_fetch(&reports, 1, __ATOMIC_SEQ_CST);
	last_phase = p->phase;
	if (p->n_layers) {
		CU_ASSERT_EQUAL(p->n_layers, 1);
		CU_ASSERT_STRING_EQUAL(p->layers[0].id, D1);
		CU_ASSERT_EQUAL(p->layers[0].phase, 2);
		CU_ASSERT_EQUAL(p->current, 5);
	}
}

static int pull(const char *reference, uint32_t format, uint32_t flags, char digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	struct edera_pull p = { .size = sizeof p, .format = format, .flags = flags, .reference = reference, .progress = on_progress };
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1 };

	return store_ops.pull(store, &call, &p, digest, err);
}

static int pulled(const char *reference, uint32_t flags, const char *want)
{
	char digest[EDERA_DIGEST_MAX] = "";
	struct edera_error err = EDERA_ERROR_INIT;
	int r = pull(reference, EDERA_IMAGE_SQUASHFS, flags, digest, &err);

	if (r)
		printf("  %s: %s\n", reference, err.msg);
	return r == 0 && !strcmp(digest, want);
}

static char *content(const char *digest, uint32_t format, const char *below)
{
	static struct buf b;
	char path[PATH_CAP], file[PATH_CAP];

	buf_free(&b);
	if (store_ops.file(store, NULL, digest, format, EDERA_IMAGE_FILE_ROOT, path, NULL) || path_format(file, NULL, "%s%s", path, below) ||
	    path_read_file(file, 1000, &b, NULL))
		return "";
	return (char *)b.data;
}

static void test_pull(void)
{
	char path[PATH_CAP];
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	reports = 0;
	CU_ASSERT(pulled("r.io/a:1", 0, D1));
	CU_ASSERT(reports > 0);
	CU_ASSERT_STRING_EQUAL(content(D1, EDERA_IMAGE_SQUASHFS, ""), "one");
	CU_ASSERT_EQUAL_FATAL(store_ops.file(store, NULL, D1, EDERA_IMAGE_SQUASHFS, EDERA_IMAGE_FILE_CONFIG, path, NULL), 0);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_size, 7);
	CU_ASSERT_EQUAL(st.st_mode & 0777, 0644);
	CU_ASSERT_EQUAL(store_ops.file(store, NULL, D2, EDERA_IMAGE_SQUASHFS, EDERA_IMAGE_FILE_ROOT, path, NULL), -ENOENT);
	CU_ASSERT_EQUAL(store_ops.file(store, NULL, "sha256:../x", EDERA_IMAGE_SQUASHFS, EDERA_IMAGE_FILE_ROOT, path, NULL), -EINVAL);
	/* A name that was pulled is answered from here; "latest" and updates are not. */
	CU_ASSERT(pulled("r.io/a:1", 0, D1));
	CU_ASSERT_EQUAL(provider.runs, 1);
	CU_ASSERT_EQUAL(last_phase, 8);
	provider.digest = D2;
	provider.content = "two";
	CU_ASSERT(pulled("r.io/a:1", 0, D1));
	CU_ASSERT(pulled("r.io/a:1", EDERA_PULL_UPDATE, D2));
	CU_ASSERT(pulled("r.io/a:1", 0, D2));
	CU_ASSERT_EQUAL(provider.runs, 2);
	CU_ASSERT(pulled("r.io/a", 0, D2));
	CU_ASSERT(pulled("r.io/a", 0, D2));
	CU_ASSERT_EQUAL(provider.runs, 4);
	CU_ASSERT_EQUAL(end(), 0);
}

static void test_digests(void)
{
	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	provider.source = INDEX;
	CU_ASSERT(pulled("r.io/a:1", 0, D1));
	CU_ASSERT(pulled("r.io/other@" D1, 0, D1));
	CU_ASSERT(pulled("r.io/other@" INDEX, 0, D1));
	CU_ASSERT_EQUAL(provider.runs, 1);
	CU_ASSERT_EQUAL(end(), 0);
}

static void test_offline(void)
{
	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	CU_ASSERT(pulled("r.io/a", 0, D1));
	provider.fail = -ECONNREFUSED;
	CU_ASSERT(pulled("r.io/a", 0, D1));
	CU_ASSERT_EQUAL(provider.warnings, 1);
	CU_ASSERT(!pulled("r.io/a", EDERA_PULL_UPDATE, D1));
	CU_ASSERT(!pulled("r.io/b", 0, D1));
	provider.fail = -EACCES;
	CU_ASSERT(!pulled("r.io/a", 0, D1));
	CU_ASSERT_EQUAL(end(), 0);
}

static int import(const char *name, const char *expected, uint32_t flags, int fd, const char *want)
{
	struct edera_import i = { .size = sizeof i, .format = EDERA_IMAGE_SQUASHFS, .flags = flags, .archive_fd = fd, .name = name, .digest = expected };
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1 };
	char digest[EDERA_DIGEST_MAX] = "";
	int r = store_ops.import(store, &call, &i, digest, NULL);

	return r ? r : strcmp(digest, want) != 0;
}

static void test_import(void)
{
	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	provider.source = INDEX;
	CU_ASSERT_EQUAL(import("a:1", "", 0, -1, ""), -ENOENT);
	CU_ASSERT_EQUAL(import("oci:/etc", "", 0, 5, ""), -EINVAL);
	CU_ASSERT_EQUAL(import("a@" D1, "", 0, 5, ""), -EINVAL);
	CU_ASSERT_EQUAL(provider.runs, 0);
	CU_ASSERT_EQUAL(import("a:1", D1, 0, 5, D1), 0);
	CU_ASSERT_STRING_EQUAL(provider.asked, "archive:-:docker.io/library/a:1@" D1);
	CU_ASSERT_EQUAL(provider.archive, 5);
	/* What is there needs no archive, and gets the name. */
	CU_ASSERT_EQUAL(import("b", INDEX, 0, -1, D1), 0);
	CU_ASSERT_EQUAL(import("b", INDEX, EDERA_PULL_OVERWRITE, -1, ""), -ENOENT);
	CU_ASSERT_EQUAL(provider.runs, 1);
	/* Its name needs no registry, though its tag is "latest"; a pull that asks one makes it an ordinary name. */
	CU_ASSERT(pulled("b", 0, D1));
	CU_ASSERT_EQUAL(provider.runs, 1);
	CU_ASSERT(pulled("b", EDERA_PULL_UPDATE, D1));
	CU_ASSERT(pulled("b", 0, D1));
	CU_ASSERT_EQUAL(provider.runs, 3);
	/* Not what was expected: nothing is kept. */
	provider.digest = D2;
	provider.source = "";
	CU_ASSERT_EQUAL(import("c", INDEX, EDERA_PULL_OVERWRITE, 5, ""), -EBADMSG);
	CU_ASSERT(!entry_exists(store, D2, EDERA_IMAGE_SQUASHFS));
	CU_ASSERT_EQUAL(leftovers(), 0);
	/* The names in the archive, as far as they are names. */
	CU_ASSERT_EQUAL(import("", "", 0, 5, D2), 0);
	CU_ASSERT_STRING_EQUAL(provider.asked, "archive:-");
	CU_ASSERT_PTR_NOT_NULL(names_find(&store->names, "docker.io/in/archive:latest", EDERA_IMAGE_SQUASHFS));
	CU_ASSERT_PTR_NULL(names_find(&store->names, "oci:/etc", EDERA_IMAGE_SQUASHFS));
	CU_ASSERT_EQUAL(store->names.n, 3);
	CU_ASSERT_EQUAL(end(), 0);
}

static int pull_as(const char *reference, const char *means, size_t size, const char *want)
{
	struct edera_pull p = { .size = (uint32_t)size, .format = EDERA_IMAGE_SQUASHFS, .reference = reference, .digest = means };
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1 };
	char digest[EDERA_DIGEST_MAX] = "";
	int r = store_ops.pull(store, &call, &p, digest, NULL);

	return r ? r : strcmp(digest, want) != 0;
}

/* The core knows what a name stands for: that and nothing else is fetched, and kept under the name. */
static void test_named_digest(void)
{
	const size_t whole = sizeof(struct edera_pull), short_one = offsetof(struct edera_pull, digest);

	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	CU_ASSERT_EQUAL(pull_as("a:1", D1, whole, D1), 0);
	CU_ASSERT_STRING_EQUAL(provider.asked, "docker.io/library/a:1@" D1);
	CU_ASSERT(pulled("a:1", 0, D1));
	CU_ASSERT_EQUAL(pull_as("a:1", D1, whole, D1), 0);
	CU_ASSERT_EQUAL(provider.runs, 1);
	/* It stands for something else by now. */
	provider.digest = D2;
	provider.source = INDEX;
	CU_ASSERT_EQUAL(pull_as("a:1", INDEX, whole, D2), 0);
	CU_ASSERT_STRING_EQUAL(provider.asked, "docker.io/library/a:1@" INDEX);
	CU_ASSERT(pulled("a:1", 0, D2));
	/* What is there already only gets the name. */
	CU_ASSERT_EQUAL(pull_as("b", INDEX, whole, D2), 0);
	CU_ASSERT_EQUAL(provider.runs, 2);
	provider.fail = -ECONNREFUSED;
	CU_ASSERT(pulled("b", 0, D2));
	/* Another image of that name is no answer, though the registry is not there. */
	CU_ASSERT_EQUAL(pull_as("b", "sha256:4444444444444444444444444444444444444444444444444444444444444444", whole, ""), -ECONNREFUSED);
	CU_ASSERT_EQUAL(pull_as("b", "sha256:4", whole, ""), -EINVAL);
	CU_ASSERT_EQUAL(pull_as("oci:/b", D1, whole, ""), -EINVAL);
	/* A core that does not know the field. */
	CU_ASSERT_EQUAL(pull_as("b", D1, short_one, D2), 0);
	CU_ASSERT_EQUAL(end(), 0);
}

static void test_overwrite(void)
{
	char path[PATH_CAP];

	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	CU_ASSERT(pulled("r.io/a:1", 0, D1));
	CU_ASSERT_EQUAL_FATAL(store_ops.file(store, NULL, D1, EDERA_IMAGE_SQUASHFS, EDERA_IMAGE_FILE_ROOT, path, NULL), 0);
	_close_ int old = open(path, O_RDONLY);
	char now[8] = "";

	provider.content = "new";
	CU_ASSERT(pulled("r.io/a:1", EDERA_PULL_OVERWRITE, D1));
	CU_ASSERT_STRING_EQUAL(content(D1, EDERA_IMAGE_SQUASHFS, ""), "new");
	CU_ASSERT(read(old, now, 7) == 3 && !strcmp(now, "one")); /* who had it open still has it */
	CU_ASSERT_EQUAL(end(), 0);
}

static void test_failure(void)
{
	char digest[EDERA_DIGEST_MAX] = "untouched";
	struct edera_error err = EDERA_ERROR_INIT;

	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	provider.fail = -ENOSPC;
	CU_ASSERT_EQUAL(pull("r.io/a:1", EDERA_IMAGE_SQUASHFS, 0, digest, &err), -ENOSPC);
	CU_ASSERT_STRING_EQUAL(digest, "untouched");
	CU_ASSERT(!strncmp(err.msg, "the registry is not there ('/", 29) && strstr(err.msg, "/images')")); /* which disk is full */
	CU_ASSERT_EQUAL(leftovers(), 0);
	provider.fail = 0;
	CU_ASSERT_EQUAL(pull("NOT A REF", EDERA_IMAGE_SQUASHFS, 0, digest, &err), -EINVAL);
	CU_ASSERT_EQUAL(pull("a", 9, 0, digest, &err), -EINVAL);
	CU_ASSERT_EQUAL(end(), 0);
}

static void test_kernel(void)
{
	char digest[EDERA_DIGEST_MAX], path[PATH_CAP], file[PATH_CAP];
	struct edera_error err = EDERA_ERROR_INIT;
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	provider.file = "metadata";
	CU_ASSERT_EQUAL(pull("r.io/k:1", EDERA_IMAGE_DIRECTORY, 0, digest, &err), 0);
	CU_ASSERT_STRING_EQUAL(content(D1, EDERA_IMAGE_DIRECTORY, "/kernel/image"), "one");
	CU_ASSERT_EQUAL_FATAL(store_ops.file(store, NULL, D1, EDERA_IMAGE_DIRECTORY, EDERA_IMAGE_FILE_ROOT, path, NULL), 0);
	CU_ASSERT_EQUAL(path_format(file, NULL, "%s/kernel/image", path), 0);
	CU_ASSERT_EQUAL(stat(file, &st), 0);
	CU_ASSERT(st.st_uid == geteuid() && (st.st_mode & 0777) == 0644);
	/* The same image in another format is another entry. */
	CU_ASSERT_EQUAL(store_ops.file(store, NULL, D1, EDERA_IMAGE_SQUASHFS, EDERA_IMAGE_FILE_ROOT, path, NULL), -ENOENT);
	/* What a provider that has been taken over could try. */
	provider.digest = D2;
	provider.file = "link";
	CU_ASSERT_NOT_EQUAL(pull("r.io/k:2", EDERA_IMAGE_DIRECTORY, 0, digest, &err), 0);
	provider.file = "surprise";
	CU_ASSERT_NOT_EQUAL(pull("r.io/k:2", EDERA_IMAGE_DIRECTORY, 0, digest, &err), 0);
	CU_ASSERT_EQUAL(end(), 0);
}

static int count_one(void *user, const struct edera_image_info *info)
{
	unsigned *n = user;

	n[0]++;
	n[1] += (unsigned)info->n_names;
	n[2] += (unsigned)info->bytes;
	return 0;
}

static void test_list_remove(void)
{
	unsigned n[3] = { 0 };
	int removed = -1;

	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	CU_ASSERT(pulled("r.io/a:1", 0, D1));
	CU_ASSERT(pulled("r.io/a:2", 0, D1));
	provider.digest = D2;
	provider.content = "second";
	CU_ASSERT(pulled("r.io/b:1", 0, D2));
	CU_ASSERT_EQUAL(store_ops.list(store, NULL, count_one, n, NULL), 0);
	CU_ASSERT(n[0] == 2 && n[1] == 3 && n[2] == 9);
	/* Names survive a restart. */
	store_free(store);
	CU_ASSERT_EQUAL_FATAL(store_open(&host, NULL, &store, NULL), 0);
	memset(n, 0, sizeof n);
	CU_ASSERT_EQUAL(store_ops.list(store, NULL, count_one, n, NULL), 0);
	CU_ASSERT(n[0] == 2 && n[1] == 3);
	CU_ASSERT_EQUAL(store_ops.remove(store, NULL, D1, EDERA_IMAGE_SQUASHFS, &removed, NULL), 0);
	CU_ASSERT_EQUAL(removed, 1);
	CU_ASSERT_EQUAL(store_ops.remove(store, NULL, D1, EDERA_IMAGE_SQUASHFS, &removed, NULL), 0);
	CU_ASSERT_EQUAL(removed, 0);
	memset(n, 0, sizeof n);
	CU_ASSERT_EQUAL(store_ops.list(store, NULL, count_one, n, NULL), 0);
	CU_ASSERT(n[0] == 1 && n[1] == 1);
	provider.digest = D1;
	CU_ASSERT(pulled("r.io/a:1", 0, D1)); /* its name is forgotten with it */
	CU_ASSERT_EQUAL(provider.runs, 4);
	CU_ASSERT_EQUAL(end(), 0);
}

static void *pull_in_thread(void *user)
{
	return (void *)(intptr_t)pulled("r.io/a:1", 0, D1);
}

static void test_shared(void)
{
	pthread_t t[4];
	void *ok;

	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	provider.delay = 300000;
	for (int i = 0; i < 4; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, pull_in_thread, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &ok);
		CU_ASSERT(ok != NULL);
	}
	CU_ASSERT_EQUAL(provider.runs, 1);
	CU_ASSERT_EQUAL(end(), 0);
}

static void test_stale(void)
{
	char path[PATH_CAP];

	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	CU_ASSERT_EQUAL(path_format(path, NULL, "%s/image.abc/kernel", store->work), 0);
	CU_ASSERT_EQUAL(path_mkdirs(path, 0700, NULL), 0);
	store_free(store);
	CU_ASSERT_EQUAL_FATAL(store_open(&host, NULL, &store, NULL), 0);
	CU_ASSERT_EQUAL(leftovers(), 0);
	CU_ASSERT_EQUAL(end(), 0);
}

static void test_symlinked_cache(void)
{
	char real[] = "/tmp/image-store-real.XXXXXX";

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(real));
	CU_ASSERT_EQUAL_FATAL(begin(), 0);
	store_free(store);
	path_remove_tree(cache, NULL);
	CU_ASSERT_EQUAL_FATAL(symlink(real, cache), 0);
	CU_ASSERT_EQUAL_FATAL(store_open(&host, NULL, &store, NULL), 0);
	CU_ASSERT(pulled("r.io/a:1", 0, D1));
	CU_ASSERT_STRING_EQUAL(content(D1, EDERA_IMAGE_SQUASHFS, ""), "one");
	CU_ASSERT_EQUAL(end(), 0);
	unlink(cache);
	path_remove_tree(real, NULL);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "pull", test_pull }, { "digests", test_digests }, { "offline", test_offline }, { "a digest for a name", test_named_digest }, { "import", test_import }, { "overwrite", test_overwrite },
		 { "failure", test_failure },
		{ "kernel", test_kernel }, { "list and remove", test_list_remove }, { "shared", test_shared }, { "stale", test_stale },
		{ "symlinked cache", test_symlinked_cache }, CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { "image store", NULL, NULL, NULL, NULL, (CU_TestInfo *)tests }, CU_SUITE_INFO_NULL };

	if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
		return 2;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();

	CU_cleanup_registry();
	return failed != 0;
}
