/* SPDX-License-Identifier: Apache-2.0 */
/* containerd as a source: what is opened of its store, and what is believed of what answers on its socket. The real one is in
 * tests/integration/image-containerd.py; here are those that it never is. */
#include <CUnit/Basic.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "containerd.h"
#include "rpc/grpc.h"
#include "rpc/unix_socket.h"

#include "containerd/services/images/v1/images.pb-c.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define SHA256 "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SHA512 "sha512:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NAME "docker.io/library/busybox:1.36"

static char dir[] = "/tmp/test-containerd.XXXXXX", address[64];
static struct conf *conf;

/* ---- the store ---- */

static const char *blob(const char *digest)
{
	static char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/io.containerd.content.v1.content/blobs/%.6s/%s", dir, digest, digest + 7);
	return path;
}

static int open_blob(const struct conf *c, const char *digest, uint64_t size)
{
	int fd = -7, r = containerd_blob_open(c, digest, size, &fd);

	if (r) {
		CU_ASSERT_EQUAL(fd, -7);
		return r;
	}
	CU_ASSERT_EQUAL(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	CU_ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	return 0;
}

static void blobs(void)
{
	static const char *const digests[] = { SHA256, SHA512 };

	for (size_t i = 0; i < ARRAY_SIZE(digests); i++) {
		char parent[PATH_CAP];

		CU_ASSERT_EQUAL(open_blob(conf, digests[i], 5), -ENOENT);
		snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(blob(digests[i]), '/') - blob(digests[i])), blob(digests[i]));
		CU_ASSERT_EQUAL_FATAL(path_mkdirs(parent, 0755, NULL), 0);
		CU_ASSERT_EQUAL(open_blob(conf, digests[i], 5), -ENOENT);
		CU_ASSERT_EQUAL_FATAL(path_write_file(blob(digests[i]), "hello", 5, 0444, NULL), 0);
		CU_ASSERT_EQUAL(open_blob(conf, digests[i], 5), 0);
		CU_ASSERT_EQUAL(open_blob(conf, digests[i], 0), 0); /* not known */
		CU_ASSERT_EQUAL(open_blob(conf, digests[i], 4), -ENOENT);
		CU_ASSERT_EQUAL(open_blob(conf, digests[i], 6), -ENOENT);
		CU_ASSERT_EQUAL(open_blob(conf, digests[i], UINT64_MAX), -ENOENT);
	}
}

static void planted(void)
{
	char real[PATH_CAP];

	snprintf(real, sizeof real, "%s/real", dir);
	CU_ASSERT_EQUAL_FATAL(rename(blob(SHA256), real), 0);
	CU_ASSERT_EQUAL_FATAL(symlink(real, blob(SHA256)), 0);
	CU_ASSERT_EQUAL(open_blob(conf, SHA256, 5), -ENOENT);
	unlink(blob(SHA256));
	CU_ASSERT_EQUAL_FATAL(symlink("/etc/passwd", blob(SHA256)), 0);
	CU_ASSERT_EQUAL(open_blob(conf, SHA256, 0), -ENOENT);
	unlink(blob(SHA256));
	CU_ASSERT_EQUAL_FATAL(mkfifo(blob(SHA256), 0644), 0);
	CU_ASSERT_EQUAL(open_blob(conf, SHA256, 0), -ENOENT);
	unlink(blob(SHA256));
	CU_ASSERT_EQUAL_FATAL(mkdir(blob(SHA256), 0755), 0);
	CU_ASSERT_EQUAL(open_blob(conf, SHA256, 0), -ENOENT);
	rmdir(blob(SHA256));
	CU_ASSERT_EQUAL_FATAL(rename(real, blob(SHA256)), 0);
	CU_ASSERT_EQUAL(open_blob(conf, SHA256, 5), 0);
}

static void digests(void)
{
	static const char *const bad[] = {
		"", "sha256:", "sha256:../../../../../../etc/passwd", "sha256:0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF",
		"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde", SHA256 "0", "md5:0123456789abcdef0123456789abcdef",
		"../256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", SHA256 "/..",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CU_ASSERT_EQUAL(open_blob(conf, bad[i], 0), -ENOENT);
}

static void turned_off(void)
{
	_conf_ struct conf *off = NULL, *absent = NULL, *no_address = NULL, *no_namespace = NULL;
	char digest[EDERA_DIGEST_MAX] = "as it was";
	struct edera_error err = EDERA_ERROR_INIT;

	CU_ASSERT_EQUAL_FATAL(conf_load_text("[oci]\ncontainerd-root = \"\"\n", true, NULL, 0, &off, NULL), 0);
	CU_ASSERT_EQUAL(open_blob(off, SHA256, 5), -ENOENT);
	CU_ASSERT_EQUAL(containerd_resolve(off, NAME, digest, &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "[oci]"));
	CU_ASSERT_EQUAL_FATAL(conf_load_text("[oci]\ncontainerd-root = \"/nonexistent\"\ncontainerd-address = \"/nonexistent/socket\"\n", true, NULL, 0, &absent, NULL), 0);
	CU_ASSERT_EQUAL(open_blob(absent, SHA256, 5), -ENOENT);
	CU_ASSERT_EQUAL(containerd_resolve(absent, NAME, digest, &err), -ECONNREFUSED);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "/nonexistent/socket"));
	CU_ASSERT_EQUAL_FATAL(conf_load_text("[oci]\ncontainerd-address = \"\"\n", true, NULL, 0, &no_address, NULL), 0);
	CU_ASSERT_EQUAL(containerd_resolve(no_address, NAME, digest, &err), -ENOENT);
	CU_ASSERT_EQUAL_FATAL(conf_load_text("[oci]\ncontainerd-namespaces = []\n", true, NULL, 0, &no_namespace, NULL), 0);
	CU_ASSERT_EQUAL(containerd_resolve(no_namespace, NAME, digest, &err), -ENOENT);
	CU_ASSERT_STRING_EQUAL(digest, "as it was");
}

/* ---- the name: one that speaks gRPC ---- */

typedef Containerd__Services__Images__V1__GetImageResponse Response;
typedef Containerd__Services__Images__V1__Image Image;
typedef Containerd__Services__Images__V1__Descriptor Descriptor;

static struct server {
	pthread_t thread;
	uv_loop_t loop;
	uv_async_t stop;
	struct grpc_server *server;
	const Response *answer;  /* NULL: status */
	enum rpc_status status;
	unsigned asked, known_at; /* the call that is answered; earlier ones know nothing */
	bool right;               /* the name was */
} s;

static void get(struct grpc_call *call, const ProtobufCMessage *m)
{
	s.right = !strcmp(((const Containerd__Services__Images__V1__GetImageRequest *)m)->name, NAME);
	if (++s.asked < s.known_at)
		grpc_call_finish(call, RPC_NOT_FOUND, "image: not found");
	else if (s.answer)
		grpc_call_reply(call, &s.answer->base);
	else if (s.status != RPC_OK)
		grpc_call_finish(call, s.status, "as told");
	/* else it thinks for ever */
}

static void server_gone(void *user)
{
	uv_close(user, NULL);
}

static void on_stop(uv_async_t *a)
{
	grpc_server_shutdown(s.server, 0, server_gone, a);
}

static void *serve(void *unused)
{
	(void)unused;
	uv_run(&s.loop, UV_RUN_DEFAULT);
	return NULL;
}

static const struct grpc_method methods[] = { { .name = "Get", .message = get } };
static const struct grpc_service service = { .descriptor = &containerd__services__images__v1__images__descriptor, .methods = methods, .n_methods = 1 };

static int ask(const Response *answer, enum rpc_status status, unsigned known_at, char digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	int r;

	s = (struct server){ .answer = answer, .status = status, .known_at = known_at };
	*err = (struct edera_error)EDERA_ERROR_INIT;
	uv_loop_init(&s.loop);
	uv_async_init(&s.loop, &s.stop, on_stop);
	s.server = grpc_server_new(&s.loop, NULL);
	if (!s.server || grpc_server_add(s.server, &service, NULL) || grpc_server_listen_unix(s.server, address, 0600, getgid(), NULL))
		exit(99);
	pthread_create(&s.thread, NULL, serve, NULL);
	r = containerd_resolve(conf, NAME, digest, err);
	uv_async_send(&s.stop);
	pthread_join(s.thread, NULL);
	grpc_server_free(s.server);
	uv_run(&s.loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL(uv_loop_close(&s.loop), 0);
	CU_ASSERT(s.right);
	return r;
}

static void answers(void)
{
	Response a = CONTAINERD__SERVICES__IMAGES__V1__GET_IMAGE_RESPONSE__INIT;
	Image image = CONTAINERD__SERVICES__IMAGES__V1__IMAGE__INIT;
	Descriptor target = CONTAINERD__SERVICES__IMAGES__V1__DESCRIPTOR__INIT;
	char digest[EDERA_DIGEST_MAX] = "as it was";
	struct edera_error err;

	CU_ASSERT_EQUAL(ask(&a, RPC_OK, 0, digest, &err), -EPROTO);
	a.image = &image;
	CU_ASSERT_EQUAL(ask(&a, RPC_OK, 0, digest, &err), -EPROTO);
	image.name = (char *)NAME;
	CU_ASSERT_EQUAL(ask(&a, RPC_OK, 0, digest, &err), -EPROTO);
	image.target = &target;
	CU_ASSERT_EQUAL(ask(&a, RPC_OK, 0, digest, &err), -EPROTO);
	target.digest = (char *)"sha256:../../../../etc/passwd";
	CU_ASSERT_EQUAL(ask(&a, RPC_OK, 0, digest, &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, address));
	target.digest = (char *)SHA256;
	image.name = (char *)"docker.io/library/other:1";
	CU_ASSERT_EQUAL(ask(&a, RPC_OK, 0, digest, &err), -EPROTO);
	CU_ASSERT_STRING_EQUAL(digest, "as it was");
	image.name = (char *)NAME;
	CU_ASSERT_EQUAL(ask(&a, RPC_OK, 0, digest, &err), 0);
	CU_ASSERT_STRING_EQUAL(digest, SHA256);
	CU_ASSERT_EQUAL(s.asked, 1);
	target.digest = (char *)SHA512;
	CU_ASSERT_EQUAL(ask(&a, RPC_OK, 2, digest, &err), 0);
	CU_ASSERT_STRING_EQUAL(digest, SHA512);
	CU_ASSERT_EQUAL(s.asked, 2); /* the second namespace */
	CU_ASSERT_EQUAL(ask(&a, RPC_OK, 3, digest, &err), -ENOENT);
	CU_ASSERT_EQUAL(s.asked, 2);
	/* Trouble in one namespace is not the answer that it knows nothing. */
	CU_ASSERT_EQUAL(ask(NULL, RPC_PERMISSION_DENIED, 0, digest, &err), -EACCES);
	CU_ASSERT_EQUAL(s.asked, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "as told"));
}

static void huge_answer(void)
{
	Response a = CONTAINERD__SERVICES__IMAGES__V1__GET_IMAGE_RESPONSE__INIT;
	Image image = CONTAINERD__SERVICES__IMAGES__V1__IMAGE__INIT;
	_free_ char *name = malloc((5 << 20) + 1);
	char digest[EDERA_DIGEST_MAX];
	struct edera_error err;

	memset(name, 'x', 5 << 20);
	name[5 << 20] = 0;
	image.name = name;
	a.image = &image;
	CU_ASSERT_EQUAL(rpc_errno_of_status(RPC_RESOURCE_EXHAUSTED), ask(&a, RPC_OK, 0, digest, &err));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "4 MiB"));
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void slow_thinker(void)
{
	char digest[EDERA_DIGEST_MAX];
	struct edera_error err;
	double begin = seconds();

	CU_ASSERT_EQUAL(ask(NULL, RPC_OK, 2, digest, &err), -ETIMEDOUT); /* the first namespace answers */
	CU_ASSERT(seconds() - begin > 4 && seconds() - begin < 20);
}

/* ---- the name: one that does not ---- */

static struct raw {
	int fd;
	const char *says;
	size_t len;
	bool again; /* and again, until nobody listens */
	bool stays;
} raw;

static void *speak(void *unused)
{
	_close_ int fd = accept4(raw.fd, NULL, NULL, SOCK_CLOEXEC);
	char heard[4096];

	(void)unused;
	do
		if (raw.len && send(fd, raw.says, raw.len, MSG_NOSIGNAL) < 0)
			break;
	while (raw.again);
	while (raw.stays && read(fd, heard, sizeof heard) > 0)
		;
	return NULL;
}

static int ask_raw(struct raw what, struct edera_error *err)
{
	char digest[EDERA_DIGEST_MAX];
	struct sockaddr_un a;
	pthread_t t;
	int r;

	raw = what;
	*err = (struct edera_error)EDERA_ERROR_INIT;
	unlink(address);
	raw.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (unix_socket_address(address, &a, NULL) || bind(raw.fd, (struct sockaddr *)&a, sizeof a) || listen(raw.fd, 5))
		exit(99);
	pthread_create(&t, NULL, speak, NULL);
	r = containerd_resolve(conf, NAME, digest, err);
	pthread_join(t, NULL);
	close(raw.fd);
	unlink(address);
	return r;
}

static unsigned open_descriptors(void)
{
	_closedir_ DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

static void no_grpc(void)
{
	static const char http[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", zeros[4096];
	struct edera_error err;
	double begin = seconds();

	CU_ASSERT(ask_raw((struct raw){ .stays = false }, &err) < 0);
	CU_ASSERT(ask_raw((struct raw){ .says = http, .len = sizeof http - 1, .stays = true }, &err) < 0);
	CU_ASSERT(ask_raw((struct raw){ .says = zeros, .len = sizeof zeros, .again = true }, &err) < 0);
	CU_ASSERT(seconds() - begin < 20);
	begin = seconds();
	CU_ASSERT_EQUAL(ask_raw((struct raw){ .stays = true }, &err), -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, address));
	CU_ASSERT(seconds() - begin > 4 && seconds() - begin < 20);
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "blobs", blobs }, { "planted", planted }, { "bad digests", digests }, { "turned off", turned_off }, { "answers", answers },
		{ "a huge answer", huge_answer }, { "one that thinks", slow_thinker }, { "no gRPC", no_grpc }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "containerd", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	char text[500];
	unsigned failed, descriptors;

	if (!mkdtemp(dir))
		return 99;
	snprintf(address, sizeof address, "%s/socket", dir);
	snprintf(text, sizeof text, "[oci]\ncontainerd-root = \"%s\"\ncontainerd-address = \"%s\"\ncontainerd-namespaces = [\"k8s.io\", \"default\"]\n", dir, address);
	if (conf_load_text(text, true, NULL, 0, &conf, NULL) || CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	uv_loop_init(&s.loop); /* libuv keeps two descriptors for good */
	uv_loop_close(&s.loop);
	descriptors = open_descriptors();
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	if (open_descriptors() != descriptors) {
		printf("%u descriptors became %u\n", descriptors, open_descriptors());
		failed++;
	}
	CU_cleanup_registry();
	conf_unref(conf);
	path_remove_tree(dir, NULL);
	return failed ? 1 : 0;
}
