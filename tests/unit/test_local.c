/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs from whoever started the provider: what is wrong with one is said, and is no reason to fail. */
#include "local.h"
#include "base/cleanup.h"
#include "base/content.h"
#include "base/path.h"

#include <CUnit/Basic.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE (3u << 20)

static char dir[] = "/tmp/test-local.XXXXXX", path[64];
static uint8_t *data;
static struct descriptor what;
static char wrong[DIGEST_MAX];

/* The other end, on a thread of its own. */
static struct {
	struct content content;
	pthread_t thread;
	const char *new_file;
	unsigned opened, kept, bad;
} owner;

static int on_open(void *user, const char *digest, uint64_t size, int *ret_fd)
{
	owner.opened++;
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int on_create(void *user, const char *digest, uint64_t size, int *ret_fd)
{
	*ret_fd = open(owner.new_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return *ret_fd < 0 ? -errno : 0;
}

static void on_kept(void *user, const char *digest) { owner.kept++; }
static void on_bad(void *user, const char *digest) { owner.bad++; }
static const struct content_ops ops = { .open = on_open, .create = on_create, .kept = on_kept, .bad = on_bad };

static void *serve(void *user)
{
	struct pollfd p = { .fd = owner.content.fd, .events = POLLIN };

	do
		poll(&p, 1, -1);
	while (content_serve(&owner.content));
	return NULL;
}

static struct local local;

static void write_blob(size_t n)
{
	CU_ASSERT_EQUAL(path_write_file(path, data, n, 0600, NULL), 0);
}

static void begin(void)
{
	int pair[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	memset(&owner, 0, sizeof owner);
	owner.content = (struct content){ .fd = pair[0], .ops = &ops };
	local.socket = pair[1];
	CU_ASSERT_EQUAL_FATAL(pthread_create(&owner.thread, NULL, serve, NULL), 0);
	write_blob(SIZE);
}

static void end(int socket)
{
	shutdown(socket, SHUT_RDWR);
	pthread_join(owner.thread, NULL);
	close(owner.content.fd);
	close(socket);
}

static int verify(const struct descriptor *d, struct local_layer *y)
{
	int r = local_open(&local, d, y), turns = 0;

	while (!r && (r = local_verify(&local, d, y)) == 1) {
		turns++;
		r = 0;
	}
	CU_ASSERT(r || turns == SIZE / (1u << 20) - 1 || turns == SIZE / (1u << 20));
	return r;
}

static void test_small(void)
{
	struct buf b = BUF_INIT;
	int socket;

	begin();
	socket = local.socket;
	CU_ASSERT_EQUAL(local_blob(&local, what.digest, SIZE, SIZE, &b), 0);
	CU_ASSERT(b.len == SIZE && !memcmp(b.data, data, SIZE));
	buf_free(&b);
	CU_ASSERT_EQUAL(local_blob(&local, what.digest, 0, SIZE, &b), 0);
	buf_free(&b);
	CU_ASSERT_EQUAL(owner.bad, 0);
	/* Larger than may be, another size, other bytes, nothing. */
	CU_ASSERT_EQUAL(local_blob(&local, what.digest, 0, SIZE - 1, &b), -ENOENT);
	CU_ASSERT_EQUAL(local_blob(&local, what.digest, SIZE + 1, SIZE + 1, &b), -ENOENT);
	CU_ASSERT_EQUAL(local_blob(&local, wrong, 0, SIZE, &b), -ENOENT);
	write_blob(0);
	CU_ASSERT_EQUAL(local_blob(&local, what.digest, 0, SIZE, &b), -ENOENT);
	CU_ASSERT_EQUAL(owner.bad, 4);
	CU_ASSERT_PTR_NULL(b.data);
	unlink(path);
	CU_ASSERT_EQUAL(local_blob(&local, what.digest, 0, SIZE, &b), -ENOENT);
	CU_ASSERT_EQUAL(owner.bad, 4);
	end(socket);
}

static void test_layer(void)
{
	struct blob_pool pool;
	struct fetch f = { .what = &what };
	struct local_layer y = { .fd = -1 };
	struct edera_error err = EDERA_ERROR_INIT;
	int socket, r;

	begin();
	socket = local.socket;
	blob_pool_init(&pool, -1, 0);
	blob_init(&f.blob, &pool, 2u << 20);
	CU_ASSERT_EQUAL(verify(&what, &y), 0);
	CU_ASSERT_EQUAL(fetch_begin(&f, &err), 0);
	CU_ASSERT_EQUAL(local_read(&y, &f, &err), 1);
	CU_ASSERT_EQUAL(f.got, 1u << 20);
	CU_ASSERT_EQUAL(local_read(&y, &f, &err), 1);
	CU_ASSERT_EQUAL(local_read(&y, &f, &err), -EAGAIN); /* 2 MiB wait to be taken */
	for (size_t n = 0; n < SIZE;) {
		const uint8_t *piece;
		size_t len;

		CU_ASSERT_EQUAL_FATAL(blob_take(&f.blob, &piece, &len, &err), 1);
		CU_ASSERT(!memcmp(piece, data + n, len));
		n += len;
		r = local_read(&y, &f, &err);
		CU_ASSERT(r == 0 || r == 1 || r == -EAGAIN);
	}
	CU_ASSERT_EQUAL(local_read(&y, &f, &err), 0);
	CU_ASSERT_EQUAL(fetch_end(&f, &err), 0);
	local_close(&y);
	blob_free(&f.blob);
	digest_free(&f.digest);
	blob_pool_free(&pool);
	CU_ASSERT_EQUAL(owner.bad, 0);
	end(socket);
}

/* What was there when it was verified is not there when it is read: the rest comes from elsewhere. */
static void test_lost(void)
{
	struct blob_pool pool;
	struct fetch f = { .what = &what };
	struct local_layer y = { .fd = -1 };
	struct edera_error err = EDERA_ERROR_INIT;
	int socket;

	begin();
	socket = local.socket;
	blob_pool_init(&pool, -1, 0);
	blob_init(&f.blob, &pool, 6u << 20);
	CU_ASSERT_EQUAL(verify(&what, &y), 0);
	CU_ASSERT_EQUAL(fetch_begin(&f, &err), 0);
	CU_ASSERT_EQUAL(local_read(&y, &f, &err), 1);
	CU_ASSERT_EQUAL(truncate(path, (1 << 20) + 5), 0);
	CU_ASSERT_EQUAL(local_read(&y, &f, &err), -ENOENT);
	CU_ASSERT_EQUAL(f.got, (1u << 20) + 5);
	local_close(&y);
	CU_ASSERT_EQUAL(fetch_put(&f, data + f.got, SIZE - f.got, false, &err), 0);
	CU_ASSERT_EQUAL(fetch_end(&f, &err), 0);
	blob_free(&f.blob);
	digest_free(&f.digest);
	blob_pool_free(&pool);
	end(socket);
}

static void test_wrong_layer(void)
{
	struct descriptor other = what;
	struct local_layer y = { .fd = -1 };
	int socket;

	begin();
	socket = local.socket;
	strcpy(other.digest, wrong);
	CU_ASSERT_EQUAL(verify(&other, &y), -ENOENT);
	CU_ASSERT_EQUAL(owner.bad, 1);
	other = what;
	other.size++;
	CU_ASSERT_EQUAL(local_open(&local, &other, &y), -ENOENT);
	CU_ASSERT_EQUAL(owner.bad, 2);
	/* Cut while it is verified. */
	CU_ASSERT_EQUAL(local_open(&local, &what, &y), 0);
	CU_ASSERT_EQUAL(local_verify(&local, &what, &y), 1);
	CU_ASSERT_EQUAL(truncate(path, (1 << 20) + 5), 0);
	CU_ASSERT_EQUAL(local_verify(&local, &what, &y), -ENOENT);
	CU_ASSERT_EQUAL(owner.bad, 3);
	CU_ASSERT_EQUAL(y.fd, -1);
	unlink(path);
	CU_ASSERT_EQUAL(local_open(&local, &what, &y), -ENOENT);
	CU_ASSERT_EQUAL(owner.bad, 3);
	end(socket);
}

/* What cannot be written, for want of space, is not kept, and what was written of it goes. */
static void test_keep(void)
{
	char file[64];
	struct stat st;
	int socket, fd;

	begin();
	socket = local.socket;
	snprintf(file, sizeof file, "%s/kept", dir);
	owner.new_file = file;
	fd = local_new(&local, &what);
	CU_ASSERT(fd >= 0);
	local_write(&fd, 0, data, 1000);
	local_write(&fd, 1000, data + 1000, SIZE - 1000);
	local_kept(&local, &what, &fd);
	CU_ASSERT(fd == -1 && owner.kept == 1);
	CU_ASSERT(stat(file, &st) == 0 && st.st_size == SIZE);
	fd = open(file, O_RDONLY | O_CLOEXEC); /* what refuses to be written */
	local_write(&fd, 0, data, 1000);
	CU_ASSERT_EQUAL(fd, -1);
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	local_write(&fd, 0, data, 1000);
	CU_ASSERT_EQUAL(fd, -1);
	local_write(&fd, 1000, data, 1000);
	local_kept(&local, &what, &fd);
	CU_ASSERT_EQUAL(owner.kept, 1);
	end(socket);
}

/* Nobody to ask, or nobody any more: everything is fetched. */
static void test_nobody(void)
{
	struct local_layer y;
	struct buf b = BUF_INIT;
	int socket, fd = -1;

	local.socket = -1;
	CU_ASSERT_EQUAL(local_open(&local, &what, &y), -ENOENT);
	CU_ASSERT_EQUAL(local_blob(&local, what.digest, 0, SIZE, &b), -ENOENT);
	CU_ASSERT_EQUAL(local_new(&local, &what), -1);
	local_kept(&local, &what, &fd);
	begin();
	socket = local.socket;
	end(socket);
	local.socket = open(dir, O_RDONLY | O_CLOEXEC);
	fd = local.socket;
	CU_ASSERT_EQUAL(local_open(&local, &what, &y), -ENOENT);
	CU_ASSERT_EQUAL(local.socket, -1);
	CU_ASSERT_EQUAL(local_new(&local, &what), -1);
	close(fd);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "small", test_small }, { "layer", test_layer }, { "lost", test_lost }, { "wrong layer", test_wrong_layer }, { "keep", test_keep },
		{ "nobody", test_nobody }, CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { "local blobs", NULL, NULL, NULL, NULL, (CU_TestInfo *)tests }, CU_SUITE_INFO_NULL };

	data = malloc(SIZE);
	if (!data || !mkdtemp(dir))
		return 2;
	snprintf(path, sizeof path, "%s/blob", dir);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	what.size = SIZE;
	if (digest_of(data, SIZE, "sha256:", what.digest, NULL) || digest_of(data, SIZE - 1, "sha256:", wrong, NULL))
		return 2;
	if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
		return 2;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();

	CU_cleanup_registry();
	path_remove_tree(dir, NULL);
	free(data);
	return failed != 0;
}
