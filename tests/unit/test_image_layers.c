/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that the image store keeps: who shares them, when they go, and that it is never they who make a pull fail. The provider is a few lines
 * here; what it "fetches" is counted. */
#include "layers.h"
#include "base/cleanup.h"

#include <CUnit/Basic.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static char cache[PATH_CAP];
static bool keep_layers;
static struct {
	unsigned fetched, written, runs, messages;
	bool unfinished;      /* layers are begun, not kept */
	int fail;             /* what the run ends with while it may keep layers */
	bool fail_always;
	pthread_barrier_t *meet;
} provider;

/* An image is called by the letters of its layers: "r.io/abc". */
static void digest_of(const char *letters, char dst[EDERA_DIGEST_MAX])
{
	strcpy(dst, "sha256:");
	for (int i = 0; i < 64; i++)
		snprintf(dst + 7 + i, 2, "%x", letters[(size_t)i % strlen(letters)] & 15);
}

static const char *letters_of(const struct edera_oci_run *run)
{
	static __thread char letters[32]; /* without the tag */
	size_t n = 0;

	while (run->args[n])
		n++;
	CU_ASSERT_EQUAL(sscanf(strrchr(run->args[n - 1], '/') + 1, "%31[a-z]", letters), 1);
	return letters;
}

static void layer(const struct edera_oci_run *run, char letter)
{
	char digest[EDERA_DIGEST_MAX], text[2] = { letter, 0 }, got[8] = "";
	int fd = -1;

	digest_of(text, digest);
	if (run->blob_open(run->user, digest, 4, &fd) == 0) {
		ssize_t n = read(fd, got, sizeof got);

		CU_ASSERT(write(fd, "x", 1) < 0);
		close(fd);
		if (n == 4 && got[0] == letter)
			return;
		run->blob_bad(run->user, digest);
	}
	__atomic_add_fetch(&provider.fetched, 1, __ATOMIC_SEQ_CST);
	if (run->blob_new(run->user, digest, 4, &fd))
		return;
	__atomic_add_fetch(&provider.written, 1, __ATOMIC_SEQ_CST);
	CU_ASSERT(read(fd, got, 1) < 0);
	snprintf(got, sizeof got, "%c123", letter);
	CU_ASSERT_EQUAL(write(fd, got, 4), 4);
	close(fd);
	if (!provider.unfinished)
		run->blob_kept(run->user, digest);
}

static int run_provider(void *core, const struct edera_call *call, const struct edera_oci_run *run, struct edera_error *err)
{
	char line[512], digest[EDERA_DIGEST_MAX];
	const char *letters = letters_of(run);
	bool kept;
	int fd;

	__atomic_add_fetch(&provider.runs, 1, __ATOMIC_SEQ_CST);
	digest_of(letters, digest);
	kept = run->blob_new && run->blob_new(run->user, digest, 4, &fd) == 0;
	if (kept)
		close(fd);
	if (provider.meet)
		pthread_barrier_wait(provider.meet);
	for (const char *p = letters; *p; p++)
		layer(run, *p);
	if (provider.fail && (kept || provider.fail_always))
		return err_set(err, provider.fail, "it does not fit");
	CU_ASSERT_EQUAL(write(run->output_fd, letters, strlen(letters)), (ssize_t)strlen(letters));
	snprintf(line, sizeof line, "{\"type\":\"result\",\"digest\":\"%s\",\"source_digest\":\"\",\"manifest\":\"e30=\",\"config\":\"e30=\"}", digest);
	run->line(run->user, line, strlen(line));
	return 0;
}

static const char *host_path(void *core, enum edera_path which) { return cache; }
static int64_t host_int(const struct edera_conf *c, const char *key) { return 1; }
static const char *host_str(const struct edera_conf *c, const char *key) { return ""; }
static int host_bool(const struct edera_conf *c, const char *key) { return keep_layers; }
static void host_log(void *core, int priority, const char *message) { provider.messages++; }

static const struct edera_host host = { .size = sizeof host, .path = host_path, .conf_str = host_str, .conf_int = host_int, .conf_bool = host_bool, .log = host_log, .oci_run = run_provider };
static struct store *store;

static void begin(void)
{
	strcpy(cache, "/tmp/image-layers.XXXXXX");
	keep_layers = true;
	memset(&provider, 0, sizeof provider);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(cache));
	CU_ASSERT_EQUAL_FATAL(store_open(&host, NULL, &store, NULL), 0);
}

static void reopen(void)
{
	store_free(store);
	CU_ASSERT_EQUAL_FATAL(store_open(&host, NULL, &store, NULL), 0);
}

static unsigned files_in(const char *dir)
{
	_closedir_ DIR *d = opendir(dir);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	return n ? n - 2 : 0;
}

static void end(void)
{
	CU_ASSERT_EQUAL(files_in(store->work), 0);
	store_free(store);
	path_remove_tree(cache, NULL);
}

static int pull(const char *letters, uint32_t flags)
{
	struct edera_pull p = { .size = sizeof p, .format = EDERA_IMAGE_SQUASHFS, .flags = flags };
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1 };
	char reference[100], digest[EDERA_DIGEST_MAX];

	snprintf(reference, sizeof reference, "r.io/%s", letters);
	p.reference = reference;
	return store_ops.pull(store, &call, &p, digest, NULL);
}

static void removed(const char *letters)
{
	char digest[EDERA_DIGEST_MAX];
	int gone = 0;

	digest_of(letters, digest);
	CU_ASSERT_EQUAL(store_ops.remove(store, NULL, digest, EDERA_IMAGE_SQUASHFS, &gone, NULL), 0);
	CU_ASSERT_EQUAL(gone, 1);
}

static void kept_path(char letter, char path[PATH_CAP])
{
	char digest[EDERA_DIGEST_MAX], text[2] = { letter, 0 };

	digest_of(text, digest);
	path_format(path, NULL, "%s/sha256-%s", store->layers, digest + 7);
}

static nlink_t links(char letter)
{
	char path[PATH_CAP];
	struct stat st;

	kept_path(letter, path);
	if (lstat(path, &st) < 0)
		return 0;
	CU_ASSERT(S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0600 && st.st_uid == geteuid());
	return st.st_nlink;
}

static void test_shared(void)
{
	begin();
	CU_ASSERT_EQUAL(pull("abc", 0), 0);
	CU_ASSERT_EQUAL(provider.fetched, 3);
	CU_ASSERT_EQUAL(pull("abd", 0), 0);
	CU_ASSERT_EQUAL(provider.fetched, 4);
	CU_ASSERT(links('a') == 3 && links('c') == 2 && links('d') == 2);
	reopen();
	CU_ASSERT(links('a') == 3 && links('c') == 2 && links('d') == 2);
	CU_ASSERT_EQUAL(pull("ae", 0), 0);
	CU_ASSERT_EQUAL(provider.fetched, 5);
	/* What goes is what nobody else has. */
	removed("abc");
	CU_ASSERT(links('a') == 3 && links('b') == 2 && links('c') == 0);
	removed("abd");
	CU_ASSERT(links('a') == 2 && links('b') == 0 && links('d') == 0);
	removed("ae");
	CU_ASSERT_EQUAL(files_in(store->layers), 0);
	end();
}

static void test_overwrite(void)
{
	begin();
	CU_ASSERT_EQUAL(pull("abc", 0), 0);
	CU_ASSERT_EQUAL(pull("abc", EDERA_PULL_OVERWRITE), 0);
	CU_ASSERT_EQUAL(provider.fetched, 3);
	CU_ASSERT(links('a') == 2 && links('b') == 2 && links('c') == 2);
	removed("abc");
	CU_ASSERT_EQUAL(files_in(store->layers), 0);
	end();
}

static void test_bad(void)
{
	char path[PATH_CAP], text[8] = "";

	begin();
	CU_ASSERT_EQUAL(pull("abc", 0), 0);
	CU_ASSERT_EQUAL(pull("abd", 0), 0);
	kept_path('a', path);
	_close_ int fd = open(path, O_RDWR);

	CU_ASSERT_EQUAL(pwrite(fd, "!", 1, 0), 1);
	CU_ASSERT_EQUAL(pull("ae", 0), 0);
	CU_ASSERT_EQUAL(provider.fetched, 6);
	/* The wrong one is nobody's any more, the right one has its place. */
	struct stat st;

	CU_ASSERT(fstat(fd, &st) == 0 && st.st_nlink == 0);
	CU_ASSERT_EQUAL(links('a'), 2);
	_close_ int right = open(path, O_RDONLY);

	CU_ASSERT(read(right, text, 7) == 4 && !strcmp(text, "a123"));
	CU_ASSERT_EQUAL(pull("af", 0), 0);
	CU_ASSERT_EQUAL(provider.fetched, 7);
	end();
}

static void test_failure(void)
{
	begin();
	CU_ASSERT_EQUAL(pull("ab", 0), 0);
	provider.fail = -EIO;
	CU_ASSERT_EQUAL(pull("ac", 0), -EIO);
	CU_ASSERT(links('a') == 2 && links('b') == 2 && links('c') == 0);
	CU_ASSERT_EQUAL(provider.runs, 2);
	provider.fail = 0;
	/* Complete, but it cannot get its name. */
	char path[PATH_CAP], digest[EDERA_DIGEST_MAX];

	digest_of("ae", digest);
	CU_ASSERT_EQUAL(entry_path(store, digest, EDERA_IMAGE_SQUASHFS, path, NULL), 0);
	CU_ASSERT_EQUAL(path_write_file(path, "x", 1, 0600, NULL), 0);
	CU_ASSERT(pull("ae", 0) < 0);
	CU_ASSERT(links('a') == 2 && links('e') == 0);
	provider.unfinished = true;
	CU_ASSERT_EQUAL(pull("ad", 0), 0);
	CU_ASSERT(links('a') == 3 && links('d') == 0);
	end();
}

/* An image that is wanted now is worth more than layers that may be wanted once. */
static void test_no_space(void)
{
	char path[PATH_CAP];
	struct stat st;

	begin();
	CU_ASSERT_EQUAL(pull("ab", 0), 0);
	kept_path('b', path);
	_close_ int fd = open(path, O_RDONLY);

	provider.fail = -ENOSPC;
	CU_ASSERT_EQUAL(pull("ac", 0), 0);
	CU_ASSERT_EQUAL(provider.runs, 3);
	CU_ASSERT_EQUAL(provider.messages, 1);
	CU_ASSERT_EQUAL(files_in(store->layers), 0);
	CU_ASSERT(fstat(fd, &st) == 0 && st.st_nlink == 0);
	/* Once more is enough. */
	provider.fail_always = true;
	CU_ASSERT_EQUAL(pull("ad", 0), -ENOSPC);
	CU_ASSERT_EQUAL(provider.runs, 5);
	keep_layers = false;
	reopen();
	CU_ASSERT_EQUAL(pull("ad", 0), -ENOSPC);
	CU_ASSERT_EQUAL(provider.runs, 6);
	end();
}

static void test_not_kept(void)
{
	begin();
	CU_ASSERT_EQUAL(pull("abc", 0), 0);
	keep_layers = false;
	reopen();
	CU_ASSERT_EQUAL(files_in(store->layers), 0);
	CU_ASSERT_EQUAL(pull("abd", 0), 0);
	CU_ASSERT_EQUAL(provider.fetched, 6);
	CU_ASSERT_EQUAL(files_in(store->layers), 0);
	end();
}

/* Wherever it is killed: what it leaves is a place below .work, or layers without an image. */
static void test_crash(void)
{
	char path[PATH_CAP], other[PATH_CAP], digest[EDERA_DIGEST_MAX];

	begin();
	CU_ASSERT_EQUAL(pull("ab", 0), 0);
	/* In the middle of a pull that has layers of its own and of others ... */
	CU_ASSERT_EQUAL(path_format(path, NULL, "%s/image.abc/layers", store->work), 0);
	CU_ASSERT_EQUAL(path_mkdirs(path, 0700, NULL), 0);
	kept_path('a', other);
	strcat(path, "/sha256-0");
	CU_ASSERT_EQUAL(link(other, path), 0);
	strcat(path, "1");
	CU_ASSERT_EQUAL(path_write_file(path, "x", 1, 0600, NULL), 0);
	/* ... of which one has its name already ... */
	kept_path('c', other);
	CU_ASSERT_EQUAL(link(path, other), 0);
	reopen();
	CU_ASSERT(links('a') == 2 && links('c') == 0);
	CU_ASSERT_EQUAL(files_in(store->layers), 2);
	/* ... and in the middle of a removal. */
	digest_of("ab", digest);
	CU_ASSERT_EQUAL(entry_path(store, digest, EDERA_IMAGE_SQUASHFS, path, NULL), 0);
	CU_ASSERT_EQUAL(path_format(other, NULL, "%s/remove.abc", store->work), 0);
	CU_ASSERT_EQUAL(rename(path, other), 0);
	reopen();
	CU_ASSERT_EQUAL(files_in(store->layers), 0);
	end();
}

static void *pull_in_thread(void *user) { return (void *)(intptr_t)pull(user, 0); }

/* Both fetch what they share; one file of it stays. */
static void test_at_once(void)
{
	pthread_barrier_t meet;
	pthread_t t[2];
	void *r[2];

	begin();
	pthread_barrier_init(&meet, NULL, 2);
	provider.meet = &meet;
	pthread_create(&t[0], NULL, pull_in_thread, "abc");
	pthread_create(&t[1], NULL, pull_in_thread, "abd");
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &r[i]);
		CU_ASSERT_PTR_NULL(r[i]);
	}
	pthread_barrier_destroy(&meet);
	CU_ASSERT(links('a') == 3 && links('b') == 3 && links('c') == 2);
	removed("abc");
	removed("abd");
	CU_ASSERT_EQUAL(files_in(store->layers), 0);
	end();
}

/* layers/ on another file system than images/: there are no links, and so no layers are kept. */
static void test_no_links(void)
{
	char path[PATH_CAP];

	begin();
	CU_ASSERT_EQUAL(path_format(path, NULL, "%s", store->layers), 0);
	if (mount("tmpfs", path, "tmpfs", 0, "size=1m") < 0) {
		end();
		return;
	}
	reopen();
	CU_ASSERT_EQUAL(provider.messages, 1);
	CU_ASSERT_EQUAL(pull("ab", 0), 0);
	CU_ASSERT_EQUAL(pull("ac", 0), 0);
	CU_ASSERT(provider.fetched == 4 && provider.written == 0);
	CU_ASSERT_EQUAL(files_in(path), 0);
	umount2(path, MNT_DETACH);
	end();
}

/* A tenth of the file system stays free. */
static void test_room(void)
{
	struct keeping k = { .dir = "" };
	char entry[PATH_CAP], file[PATH_CAP], digest[EDERA_DIGEST_MAX];
	static char filler[7 << 20];
	int fd = -1;

	begin();
	store_free(store);
	if (mount("tmpfs", cache, "tmpfs", 0, "size=10m") < 0) {
		reopen();
		end();
		return;
	}
	CU_ASSERT_EQUAL_FATAL(store_open(&host, NULL, &store, NULL), 0);
	CU_ASSERT_EQUAL(path_format(entry, NULL, "%s/image.x", store->work), 0);
	CU_ASSERT_EQUAL(mkdir(entry, 0700), 0);
	CU_ASSERT_EQUAL_FATAL(keeping_begin(&k, store, entry, NULL), 0);
	digest_of("a", digest);
	CU_ASSERT_EQUAL(keeping_new(&k, digest, 8 << 20, &fd), 0);
	close(fd);
	CU_ASSERT_EQUAL(keeping_new(&k, digest, 9 << 20, &fd), -ENOENT);
	CU_ASSERT_EQUAL(keeping_new(&k, digest, UINT64_MAX, &fd), -ENOENT);
	CU_ASSERT_EQUAL(path_format(file, NULL, "%s/filler", cache), 0);
	CU_ASSERT_EQUAL(path_write_file(file, filler, sizeof filler, 0600, NULL), 0);
	CU_ASSERT_EQUAL(keeping_new(&k, digest, 1 << 20, &fd), 0);
	close(fd);
	CU_ASSERT_EQUAL(keeping_new(&k, digest, 3 << 20, &fd), -ENOENT);
	path_remove_tree(entry, NULL);
	umount2(cache, MNT_DETACH);
	end();
}

/* What a provider that has been taken over can ask for. */
static void test_hostile(void)
{
	static const char *const digests[] = { "", "sha256:", "../../../etc/passwd", "sha256:../../../../../../../../../../../etc/passwd.................................",
		"sha256:000000000000000000000000000000000000000000000000000000000000000/" };
	struct keeping k = { .store = store };
	char entry[PATH_CAP], digest[EDERA_DIGEST_MAX];
	int fd = -1;

	begin();
	CU_ASSERT_EQUAL(path_format(entry, NULL, "%s/image.x", store->work), 0);
	CU_ASSERT_EQUAL(mkdir(entry, 0700), 0);
	CU_ASSERT_EQUAL_FATAL(keeping_begin(&k, store, entry, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(digests); i++) {
		CU_ASSERT_EQUAL(keeping_open(&k, digests[i], &fd), -ENOENT);
		CU_ASSERT_EQUAL(keeping_new(&k, digests[i], 4, &fd), -ENOENT);
		keeping_kept(&k, digests[i]);
		keeping_bad(&k, digests[i]);
	}
	/* Kept without being made, and a layer that is not complete is not given. */
	digest_of("a", digest);
	keeping_kept(&k, digest);
	CU_ASSERT_EQUAL(keeping_open(&k, digest, &fd), -ENOENT);
	CU_ASSERT_EQUAL(keeping_new(&k, digest, 4, &fd), 0);
	close(fd);
	CU_ASSERT_EQUAL(keeping_open(&k, digest, &fd), -ENOENT);
	/* Nobody but the owner of a layer can call it bad. */
	CU_ASSERT_EQUAL(pull("b", 0), 0);
	digest_of("b", digest);
	keeping_bad(&k, digest);
	CU_ASSERT_EQUAL(links('b'), 2);
	/* As many files as an image may have layers. */
	unsigned n = 0;

	while (n < 5000 && keeping_new(&k, digest, 4, &fd) == 0) {
		close(fd);
		n++;
	}
	CU_ASSERT_EQUAL(n, 4095);
	CU_ASSERT_EQUAL(files_in(k.dir), 2);
	keeping_publish(&k);
	CU_ASSERT_EQUAL(files_in(store->layers), 1);
	CU_ASSERT_EQUAL(rmdir(entry), 0);
	end();
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "shared", test_shared }, { "overwrite", test_overwrite }, { "bad", test_bad }, { "failure", test_failure }, { "no space", test_no_space },
		{ "not kept", test_not_kept }, { "crash", test_crash }, { "at once", test_at_once }, { "no links", test_no_links }, { "room", test_room }, { "hostile", test_hostile },
		CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { "kept layers", NULL, NULL, NULL, NULL, (CU_TestInfo *)tests }, CU_SUITE_INFO_NULL };

	struct statvfs v;

	if (statvfs("/tmp", &v) == 0 && v.f_bavail < v.f_blocks / 8) {
		puts("/tmp is too full for layers to be kept");
		return 77;
	}
	if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
		return 2;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();

	CU_cleanup_registry();
	return failed != 0;
}
