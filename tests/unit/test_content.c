/* SPDX-License-Identifier: Apache-2.0 */
/* Serving blobs to a worker that may have been taken over: whatever it sends, the server answers what is right, or ends the service; it never
 * waits, keeps no descriptor, and asks its owner for nothing but digests. */
#include "base/content.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <CUnit/Basic.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define D1 "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "sha256:2222222222222222222222222222222222222222222222222222222222222222"
#define D512 "sha512:11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111"

static char dir[] = "/tmp/test-content.XXXXXX", path[64];
static unsigned calls, kept, bad;
static uint64_t last_size;
static char last_digest[CONTENT_DIGEST_MAX];
static int owner_says;        /* or, if 0: */
static int owner_gives;       /* flags of open() */
static const char *given = path;

static int give(const char *digest, uint64_t size, int *ret_fd)
{
	calls++;
	snprintf(last_digest, sizeof last_digest, "%s", digest);
	last_size = size;
	if (owner_says)
		return owner_says;
	*ret_fd = open(given, owner_gives | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int on_open(void *user, const char *digest, uint64_t size, int *ret_fd) { return give(digest, size, ret_fd); }
static int on_create(void *user, const char *digest, uint64_t size, int *ret_fd) { return give(digest, size, ret_fd); }
static void on_kept(void *user, const char *digest) { kept++; }
static void on_bad(void *user, const char *digest) { bad++; }
static const struct content_ops all = { .open = on_open, .create = on_create, .kept = on_kept, .bad = on_bad }, reading = { .open = on_open };

static struct content server;
static int worker = -1;

static void begin(const struct content_ops *ops)
{
	int pair[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	server = (struct content){ .fd = pair[0], .ops = ops };
	worker = pair[1];
	calls = kept = bad = 0;
	owner_says = 0;
	owner_gives = O_RDONLY;
	given = path;
}

static unsigned open_files(void)
{
	_closedir_ DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

static void end(void)
{
	close(server.fd);
	close(worker);
}

static struct content_request request(uint32_t verb, const char *digest)
{
	struct content_request q = { .verb = verb, .size = 7 };

	memcpy(q.digest, digest, strlen(digest));
	return q;
}

/* What the server says of these bytes, in whatever it is asked next: 1 it goes on, 0 it has ended. */
static int after(const void *data, size_t n)
{
	CU_ASSERT_EQUAL(send(worker, data, n, MSG_NOSIGNAL), (ssize_t)n);
	return content_serve(&server);
}

/* One exchange between two threads, as it is meant. */
static void *serve_one(void *user)
{
	struct pollfd p = { .fd = server.fd, .events = POLLIN };

	poll(&p, 1, 60000);
	return (void *)(intptr_t)content_serve(&server);
}

static int ask(enum content_verb verb, const char *digest, uint64_t size, int *ret_fd)
{
	pthread_t t;
	void *went_on;
	int r;

	pthread_create(&t, NULL, serve_one, NULL);
	r = content_ask(worker, verb, digest, size, ret_fd);
	pthread_join(t, &went_on);
	CU_ASSERT_PTR_NOT_NULL(went_on);
	return r;
}

static void test_exchange(void)
{
	char text[8] = "";
	int fd = -1;

	begin(&all);
	CU_ASSERT_EQUAL(content_serve(&server), 1); /* nothing there: it does not wait */
	CU_ASSERT_EQUAL(ask(CONTENT_OPEN, D1, 7, &fd), 0);
	CU_ASSERT(read(fd, text, 7) == 7 && !strcmp(text, "content") && write(fd, "x", 1) < 0);
	CU_ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	CU_ASSERT(!strcmp(last_digest, D1) && last_size == 7);
	owner_says = -ENOENT;
	fd = -1;
	CU_ASSERT_EQUAL(ask(CONTENT_OPEN, D512, 0, &fd), -ENOENT);
	CU_ASSERT_EQUAL(fd, -1);
	CU_ASSERT_STRING_EQUAL(last_digest, D512);
	owner_says = 0;
	owner_gives = O_WRONLY;
	CU_ASSERT_EQUAL(ask(CONTENT_NEW, D2, 7, &fd), 0);
	CU_ASSERT(read(fd, text, 1) < 0);
	close(fd);
	CU_ASSERT_EQUAL(ask(CONTENT_KEPT, D2, 7, NULL), 0);
	CU_ASSERT_EQUAL(ask(CONTENT_BAD, D2, 7, NULL), 0);
	CU_ASSERT(kept == 1 && bad == 1);
	end();
	/* One that only gives. */
	begin(&reading);
	CU_ASSERT_EQUAL(ask(CONTENT_NEW, D1, 7, &fd), -ENOENT);
	CU_ASSERT_EQUAL(ask(CONTENT_KEPT, D1, 7, NULL), 0);
	CU_ASSERT_EQUAL(ask(CONTENT_BAD, D1, 7, NULL), 0);
	CU_ASSERT_EQUAL(calls, 0);
	close(server.fd);
	server.fd = -1;
	CU_ASSERT_EQUAL(content_ask(worker, CONTENT_OPEN, D1, 7, &fd), -EPIPE);
	CU_ASSERT_EQUAL(content_ask(-1, CONTENT_OPEN, D1, 7, &fd), -EPIPE);
	end();
}

/* What an owner gives by mistake does not leave: more rights than the verb is about, or no file. */
static void test_rights(void)
{
	unsigned before;
	int fd = -1;

	begin(&all);
	before = open_files();
	owner_gives = O_RDWR;
	CU_ASSERT_EQUAL(ask(CONTENT_OPEN, D1, 7, &fd), -ENOENT);
	CU_ASSERT_EQUAL(ask(CONTENT_NEW, D1, 7, &fd), -ENOENT);
	owner_gives = O_WRONLY;
	CU_ASSERT_EQUAL(ask(CONTENT_OPEN, D1, 7, &fd), -ENOENT);
	owner_gives = O_RDONLY;
	CU_ASSERT_EQUAL(ask(CONTENT_NEW, D1, 7, &fd), -ENOENT);
	given = "/dev/null";
	CU_ASSERT_EQUAL(ask(CONTENT_OPEN, D1, 7, &fd), -ENOENT);
	given = dir;
	CU_ASSERT_EQUAL(ask(CONTENT_OPEN, D1, 7, &fd), -ENOENT);
	CU_ASSERT_EQUAL(open_files(), before);
	end();
}

static void test_malformed(void)
{
	static char giant[100000];
	struct content_request q;
	static const char *const digests[] = {
		"", "sha256:", "sha256:1", "sha256:" "G111111111111111111111111111111111111111111111111111111111111111", "md5:11111111111111111111111111111111",
		"SHA256:1111111111111111111111111111111111111111111111111111111111111111", D1 "1", "sha256:../../../../../../../../../../../../../../../../../../etc/passwd",
		"sha512:1111111111111111111111111111111111111111111111111111111111111111", "/etc/passwd", "..", "sha256:\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(digests); i++)
		for (uint32_t verb = CONTENT_OPEN; verb <= CONTENT_BAD; verb++) {
			begin(&all);
			q = request(verb, digests[i]);
			CU_ASSERT_EQUAL(after(&q, sizeof q), 0);
			end();
			CU_ASSERT(calls == 0 && kept == 0 && bad == 0);
		}
	static const uint32_t verbs[] = { 0, 5, 6, 256, 0x01000000, 0x80000001, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		begin(&all);
		q = request(verbs[i], D1);
		CU_ASSERT_EQUAL(after(&q, sizeof q), 0);
		end();
	}
	begin(&all);
	q = request(CONTENT_OPEN, D1);
	q.zero = 1;
	CU_ASSERT_EQUAL(after(&q, sizeof q), 0);
	end();
	/* No end of the text. */
	begin(&all);
	q = request(CONTENT_OPEN, D512);
	memset(q.digest + strlen(D512), '1', sizeof q.digest - strlen(D512));
	CU_ASSERT_EQUAL(after(&q, sizeof q), 0);
	end();
	/* Every size but the right one, and one far too large. */
	for (size_t n = 1; n < 2 * sizeof q; n++) {
		begin(&all);
		q = request(CONTENT_OPEN, D1);
		memcpy(giant, &q, sizeof q);
		CU_ASSERT_EQUAL(after(giant, n), n == sizeof q);
		end();
	}
	begin(&all);
	CU_ASSERT_EQUAL(after(giant, sizeof giant), 0);
	end();
	/* Nothing, which is also what the end looks like. */
	begin(&all);
	CU_ASSERT_EQUAL(after("", 0), 0);
	end();
	CU_ASSERT_EQUAL(calls, 0);
}

/* Descriptors that are sent along are closed, be there one or as many as fit. */
static void test_descriptors(void)
{
	static const size_t numbers[] = { 1, 2, 100, 253 };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		char space[CMSG_SPACE(253 * sizeof(int))] __attribute__((aligned(8))) = { 0 };
		struct content_request q = request(CONTENT_OPEN, D1);
		struct iovec v = { &q, sizeof q };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = CMSG_SPACE(numbers[i] * sizeof(int)) };
		struct cmsghdr *c = (struct cmsghdr *)space;
		int fds[253], pipe[2];
		unsigned before;
		char byte;

		begin(&all);
		CU_ASSERT_EQUAL_FATAL(pipe2(pipe, O_CLOEXEC), 0);
		for (size_t j = 0; j < numbers[i]; j++)
			fds[j] = pipe[1];
		*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(numbers[i] * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(c), fds, numbers[i] * sizeof(int));
		CU_ASSERT_EQUAL(sendmsg(worker, &m, 0), (ssize_t)sizeof q);
		close(pipe[1]);
		before = open_files();
		CU_ASSERT_EQUAL(content_serve(&server), 0);
		CU_ASSERT_EQUAL(open_files(), before);
		CU_ASSERT_EQUAL(read(pipe[0], &byte, 1), 0); /* nobody has the other end any more */
		CU_ASSERT_EQUAL(calls, 0);
		close(pipe[0]);
		end();
	}
}

/* Asking without reading the answers, and asking for ever. */
static void test_floods(void)
{
	struct content_request q = request(CONTENT_OPEN, D1);
	unsigned n = 0, before;
	int went_on = 1;

	begin(&all);
	before = open_files();
	while (went_on && n < CONTENT_REQUESTS_MAX) {
		while (send(worker, &q, sizeof q, MSG_DONTWAIT) == (ssize_t)sizeof q)
			;
		went_on = content_serve(&server);
		n++;
	}
	CU_ASSERT(!went_on && n < 1000);
	CU_ASSERT_EQUAL(open_files(), before);
	end();
	begin(&all);
	owner_says = -ENOENT;
	for (n = 0, went_on = 1; went_on && n < 2 * CONTENT_REQUESTS_MAX; n++) {
		int32_t status;

		CU_ASSERT_EQUAL(send(worker, &q, sizeof q, 0), (ssize_t)sizeof q);
		went_on = content_serve(&server);
		if (went_on)
			CU_ASSERT_EQUAL(recv(worker, &status, sizeof status, 0), (ssize_t)sizeof status);
	}
	CU_ASSERT_EQUAL(n, CONTENT_REQUESTS_MAX + 1);
	CU_ASSERT_EQUAL(calls, CONTENT_REQUESTS_MAX);
	end();
}

/* Random messages: the same each time, some of them sound but for a byte. */
static void test_noise(void)
{
	struct content_request q;
	unsigned sound = 0;

	srandom(1);
	for (unsigned i = 0; i < 20000; i++) {
		uint8_t noise[2 * sizeof q];
		size_t n = (size_t)random() % sizeof noise;

		begin(&all);
		if (i % 2) {
			q = request(1 + (uint32_t)random() % 4, i % 4 == 1 ? D1 : D512);
			((uint8_t *)&q)[(size_t)random() % sizeof q] ^= (uint8_t)(1 << random() % 8);
			sound += (unsigned)after(&q, sizeof q);
		} else {
			for (size_t j = 0; j < n; j++)
				noise[j] = (uint8_t)random();
			CU_ASSERT_EQUAL(after(noise, n), 0);
		}
		end();
	}
	/* A changed size, one verb for another, a digit for another, what comes after the text: those are sound. */
	CU_ASSERT(sound > 1000 && sound < 9000);
}

static void test_directory(void)
{
	char name[PATH_CAP];
	int fd = -1;

	snprintf(name, sizeof name, "%s/sha256", dir);
	CU_ASSERT_EQUAL(mkdir(name, 0700), 0);
	snprintf(name, sizeof name, "%s/sha256/%s", dir, D1 + 7);
	CU_ASSERT_EQUAL(path_write_file(name, "x", 1, 0600, NULL), 0);
	CU_ASSERT_EQUAL(content_open(dir, D1, &fd), 0);
	close(fd);
	CU_ASSERT_EQUAL(content_open(dir, D2, &fd), -ENOENT);
	snprintf(name, sizeof name, "%s/sha256/%s", dir, D2 + 7);
	CU_ASSERT_EQUAL(symlink("/etc/passwd", name), 0);
	CU_ASSERT(content_open(dir, D2, &fd) < 0);
	unlink(name);
	CU_ASSERT_EQUAL(mkfifo(name, 0600), 0);
	CU_ASSERT(content_open(dir, D2, &fd) < 0);
	unlink(name);
	CU_ASSERT_EQUAL(mkdir(name, 0700), 0);
	CU_ASSERT(content_open(dir, D2, &fd) < 0);
	CU_ASSERT(content_open(dir, "../x", &fd) < 0);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "exchange", test_exchange }, { "rights", test_rights }, { "malformed", test_malformed }, { "descriptors", test_descriptors },
		{ "floods", test_floods }, { "noise", test_noise }, { "directory", test_directory }, CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { "content", NULL, NULL, NULL, NULL, (CU_TestInfo *)tests }, CU_SUITE_INFO_NULL };

	if (!mkdtemp(dir))
		return 2;
	snprintf(path, sizeof path, "%s/blob", dir);
	if (path_write_file(path, "content", 7, 0600, NULL) || CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
		return 2;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();

	CU_cleanup_registry();
	path_remove_tree(dir, NULL);
	return failed != 0;
}
