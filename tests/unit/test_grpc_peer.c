/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC server against clients that do as they like: HTTP/2 spoken through nghttp2 without gRPC's manners, and bytes by hand. */
#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/cleanup.h"
#include "echo_service.h"
#include "rpc/h2.h"
#include "rpc/unix_socket.h"

#ifdef PROTECT_SANITIZED /* freed memory is kept for a while */
#define RSS_SLACK_KIB (512 << 10)
#else
#define RSS_SLACK_KIB (16 << 10)
#endif

static char dir[] = "/tmp/test-grpc-peer-XXXXXX", path[64];
static uv_loop_t loop;
static struct grpc_server *server;
static bool stopped;

static void on_stopped(void *user) { stopped = true; }

static void start_server(void)
{
	struct edera_error err = EDERA_ERROR_INIT;

	uv_loop_init(&loop);
	stopped = false;
	memset(&echo_stats, 0, sizeof echo_stats);
	server = grpc_server_new(&loop, &err);
	if (!server || grpc_server_add(server, &echo_service, &err) || grpc_server_listen_unix(server, path, 0600, getgid(), &err)) {
		printf("%s\n", err.msg);
		exit(1);
	}
}

static void stop_server(void)
{
	grpc_server_shutdown(server, 0, on_stopped, NULL);
	while (!stopped)
		uv_run(&loop, UV_RUN_ONCE);
	grpc_server_free(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	CU_ASSERT_EQUAL(echo_stats.live, 0);
	CU_ASSERT_EQUAL_FATAL(uv_loop_close(&loop), 0);
}

static void turns(int n)
{
	while (n--)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* ---- a client of HTTP/2 ---- */

#define CALLS_MAX 8192

struct seen {
	char http[8], grpc[8], message[128];
	unsigned headers, closed;
	size_t bytes;
	uint32_t code;
};

struct peer {
	int fd;
	nghttp2_session *session;
	struct seen seen[CALLS_MAX]; /* by stream id / 2 */
	bool eof;
	uint32_t goaway;
	struct buf out;
};

/* What a call sends. */
struct body {
	const uint8_t *data;
	size_t len;
	bool endless; /* data again and again */
	bool open;    /* never ends */
};

static int on_header(nghttp2_session *session, const nghttp2_frame *f, const uint8_t *name, size_t n, const uint8_t *value, size_t len, uint8_t flags, void *user)
{
	struct peer *p = user;
	struct seen *s = &p->seen[f->hd.stream_id / 2];

	s->headers++;
	if (strcmp((const char *)name, ":status") == 0)
		snprintf(s->http, sizeof s->http, "%s", value);
	if (strcmp((const char *)name, "grpc-status") == 0)
		snprintf(s->grpc, sizeof s->grpc, "%s", value);
	if (strcmp((const char *)name, "grpc-message") == 0)
		snprintf(s->message, sizeof s->message, "%s", value);
	return 0;
}

static int on_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
	struct peer *p = user;

	p->seen[id / 2].bytes += len;
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	struct peer *p = user;

	p->seen[id / 2].closed++;
	p->seen[id / 2].code = code;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *f, void *user)
{
	struct peer *p = user;

	if (f->hd.type == NGHTTP2_GOAWAY)
		p->goaway = f->goaway.error_code;
	return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *dst, size_t room, uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct body *b = source->ptr;
	size_t n = b->len < room ? b->len : room;

	if (n)
		memcpy(dst, b->data, n);
	if (!b->endless) {
		b->data += n;
		b->len -= n;
	}
	if (!b->len && b->open && !n)
		return NGHTTP2_ERR_DEFERRED;
	if (!b->len && !b->open)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static struct peer *peer_new(bool takes_data)
{
	struct peer *p = calloc(1, sizeof *p);
	nghttp2_session_callbacks *cb;
	nghttp2_option *option;

	p->fd = unix_socket_connect(path);
	CU_ASSERT_FATAL(p->fd >= 0);
	nghttp2_session_callbacks_new(&cb);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_option_new(&option);
	nghttp2_option_set_no_auto_window_update(option, !takes_data);
	nghttp2_option_set_peer_max_concurrent_streams(option, 1000000);
	nghttp2_option_set_no_http_messaging(option, 1);
	nghttp2_session_client_new2(&p->session, cb, p, option);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(cb);
	nghttp2_submit_settings(p->session, 0, NULL, 0);
	return p;
}

static void peer_free(struct peer *p)
{
	nghttp2_session_del(p->session);
	close(p->fd);
	buf_free(&p->out);
	free(p);
	turns(20);
}

/* Sends and, if asked to, receives, while the server runs. */
static void exchange(struct peer *p, int rounds, bool reads)
{
	for (int i = 0; i < rounds && !p->eof; i++) {
		static uint8_t data[1 << 16];
		const uint8_t *q;
		ssize_t n;

		while (p->out.len < 1 << 16 && (n = nghttp2_session_mem_send(p->session, &q)) > 0)
			buf_append(&p->out, q, (size_t)n);
		n = p->out.len ? send(p->fd, p->out.data, p->out.len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
		if (n > 0)
			buf_consume(&p->out, (size_t)n);
		p->eof |= n < 0 && errno != EAGAIN;
		turns(2);
		n = reads ? recv(p->fd, data, sizeof data, MSG_DONTWAIT) : -1;
		p->eof |= n == 0;
		if (n > 0)
			nghttp2_session_mem_recv(p->session, data, (size_t)n);
	}
}

static void wait_closed(struct peer *p, int32_t id)
{
	for (uint64_t end = uv_hrtime() + 10000000000; !p->seen[id / 2].closed && !p->eof && uv_hrtime() < end;) {
		exchange(p, 1, true);
		usleep(200);
	}
	CU_ASSERT_EQUAL(p->seen[id / 2].closed, 1);
}

struct ask {
	const char *method, *path, *type, *timeout, *extra, *extra_value;
};

static int32_t ask(struct peer *p, struct ask a, struct body *body)
{
	nghttp2_data_provider provider = { .source.ptr = body, .read_callback = read_body };
	nghttp2_nv nv[8] = {
		h2_nv(":method", a.method ? a.method : "POST"), h2_nv(":scheme", "http"), h2_nv(":authority", "x"),
		h2_nv(":path", a.path ? a.path : "/test.echo.v1.Echo/Unary"), h2_nv("content-type", a.type ? a.type : "application/grpc"),
	};
	size_t n = 5;

	if (a.timeout)
		nv[n++] = h2_nv("grpc-timeout", a.timeout);
	if (a.extra)
		nv[n++] = h2_nv(a.extra, a.extra_value);
	return nghttp2_submit_request(p->session, NULL, nv, n, body ? &provider : NULL, NULL);
}

#define BODY(bytes) (&(struct body){ .data = (const uint8_t *)(bytes), .len = sizeof(bytes) - 1 })
#define EMPTY_MESSAGE "\0\0\0\0\0"

static struct seen outcome(struct ask a, struct body *body)
{
	struct peer *p = peer_new(true);
	int32_t id = ask(p, a, body);
	struct seen seen;

	wait_closed(p, id);
	seen = p->seen[id / 2];
	peer_free(p);
	return seen;
}

/* ---- requests that are odd ---- */

static void test_requests(void)
{
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ 0 }, BODY(EMPTY_MESSAGE)).grpc, "0");
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .type = "application/grpc+proto" }, BODY(EMPTY_MESSAGE)).grpc, "0");
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .type = "text/plain" }, BODY(EMPTY_MESSAGE)).http, "415");
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .method = "GET" }, NULL).http, "405");
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .path = "/" }, BODY(EMPTY_MESSAGE)).grpc, "12");
	CU_ASSERT_EQUAL(outcome((struct ask){ .path = "" }, BODY(EMPTY_MESSAGE)).code, NGHTTP2_PROTOCOL_ERROR);
	CU_ASSERT_EQUAL(outcome((struct ask){ .path = "test.echo.v1.Echo/Unary" }, BODY(EMPTY_MESSAGE)).code, NGHTTP2_PROTOCOL_ERROR);
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .path = "/test.echo.v1.Echo/" }, BODY(EMPTY_MESSAGE)).grpc, "12");
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .path = "/test.echo.v1.Ech/Unary" }, BODY(EMPTY_MESSAGE)).grpc, "12");
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .timeout = "soon" }, BODY(EMPTY_MESSAGE)).grpc, "3");
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .extra = "grpc-encoding", .extra_value = "gzip" }, BODY(EMPTY_MESSAGE)).grpc, "12");
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .extra = "grpc-encoding", .extra_value = "identity" }, BODY(EMPTY_MESSAGE)).grpc, "0");
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ 0 }, NULL).grpc, "13");                               /* no message */
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ 0 }, BODY("\0\0\0\0")).grpc, "13");                   /* part of one */
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ 0 }, BODY(EMPTY_MESSAGE EMPTY_MESSAGE)).grpc, "13");  /* two */
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ 0 }, BODY("\1\0\0\0\0")).grpc, "12");                 /* compressed */
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ 0 }, BODY("\0\xff\xff\xff\xff")).grpc, "8");          /* 4 GiB are announced */
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ 0 }, BODY("\0\0\0\0\1\xff")).grpc, "3");              /* no protobuf */
}

static void test_large_headers(void)
{
	char *value = malloc(40001);
	struct seen seen;

	memset(value, 'a', 40000);
	value[40000] = 0;
	seen = outcome((struct ask){ .extra = "x", .extra_value = value }, BODY(EMPTY_MESSAGE));
	CU_ASSERT_EQUAL(seen.headers, 0);
	CU_ASSERT_NOT_EQUAL(seen.code, NGHTTP2_NO_ERROR);
	CU_ASSERT_EQUAL(echo_stats.begun, 0);
	value[12000] = 0;
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .extra = "x", .extra_value = value }, BODY(EMPTY_MESSAGE)).grpc, "0");
	value[0] = '/';
	value[5000] = 0;
	CU_ASSERT_STRING_EQUAL(outcome((struct ask){ .path = value }, BODY(EMPTY_MESSAGE)).grpc, "12");
	free(value);
}

/* An upload that goes on after the answer is told to stop, and the connection is fine. */
static void test_early_answer(void)
{
	struct peer *p = peer_new(true);
	_buf_ struct buf junk = BUF_INIT;
	struct body endless;
	int32_t id;

	buf_reserve(&junk, 1 << 16);
	memset(junk.data, 0xff, 1 << 16);
	endless = (struct body){ .data = junk.data, .len = 1 << 16, .endless = true };
	id = ask(p, (struct ask){ .path = "/test.echo.v1.Echo/ClientStream" }, &endless);
	wait_closed(p, id);
	CU_ASSERT_STRING_EQUAL(p->seen[id / 2].grpc, "12"); /* a flag of 0xff */
	CU_ASSERT_EQUAL(p->seen[id / 2].code, NGHTTP2_NO_ERROR);
	id = ask(p, (struct ask){ 0 }, BODY(EMPTY_MESSAGE));
	wait_closed(p, id);
	CU_ASSERT_STRING_EQUAL(p->seen[id / 2].grpc, "0");
	peer_free(p);
}

/* ---- the server keeps time itself ---- */

static void test_deadlines(void)
{
	struct peer *p = peer_new(true), *deaf = peer_new(false);
	struct body open = { .open = true, .data = (const uint8_t *)EMPTY_MESSAGE, .len = 5 };
	int32_t unary, bidi, blocked;

	unary = ask(p, (struct ask){ .timeout = "50m" }, BODY("\0\0\0\0\3\x28\x90\x4e")); /* delay 10 s */
	bidi = ask(p, (struct ask){ .path = "/test.echo.v1.Echo/Bidi", .timeout = "50m" }, &open);
	wait_closed(p, unary);
	wait_closed(p, bidi);
	CU_ASSERT_STRING_EQUAL(p->seen[unary / 2].grpc, "4");
	CU_ASSERT_STRING_EQUAL(p->seen[bidi / 2].grpc, "4");
	CU_ASSERT_EQUAL(p->seen[bidi / 2].bytes, 7);
	CU_ASSERT_EQUAL(echo_stats.live, 0);

	/* A reader whose window is shut for good gets its status all the same. */
	blocked = ask(deaf, (struct ask){ .path = "/test.echo.v1.Echo/ServerStream", .timeout = "100m" }, BODY("\0\0\0\0\3\x20\x90\x4e"));
	wait_closed(deaf, blocked);
	CU_ASSERT_STRING_EQUAL(deaf->seen[blocked / 2].grpc, "4");
	CU_ASSERT_EQUAL(deaf->seen[blocked / 2].bytes, 65535);
	CU_ASSERT_EQUAL(echo_stats.live, 0);

	/* So does a call that had ended, but whose last bytes nobody took. */
	blocked = ask(deaf, (struct ask){ .path = "/test.echo.v1.Echo/ServerStream", .timeout = "100m" }, BODY("\0\0\0\0\5\x18\x02\x20\x90\x4e"));
	wait_closed(deaf, blocked);
	CU_ASSERT_EQUAL(deaf->seen[blocked / 2].code, NGHTTP2_CANCEL);
	CU_ASSERT_EQUAL(echo_stats.live, 0);
	peer_free(p);
	peer_free(deaf);
}

/* ---- memory ---- */

/* Messages announced large and never completed, on as many streams as there may be. */
static void test_half_messages(void)
{
	struct peer *p = peer_new(true);
	uint64_t rss = echo_rss_kib();
	static struct body bodies[H2_STREAMS_MAX];
	uint8_t *half = calloc(1, 1 << 20);
	unsigned refused = 0;

	memcpy(half, "\0\0\x3f\xff\xff", 5);
	for (size_t i = 0; i < H2_STREAMS_MAX; i++) {
		bodies[i] = (struct body){ .data = half, .len = 1 << 20, .open = true };
		CU_ASSERT(ask(p, (struct ask){ .path = "/test.echo.v1.Echo/ClientStream" }, &bodies[i]) > 0);
	}
	exchange(p, 60000, true);
	CU_ASSERT_FALSE(p->eof);
	for (size_t i = 0; i < H2_STREAMS_MAX; i++)
		refused += strcmp(p->seen[i].grpc, "8") == 0;
	CU_ASSERT(refused > H2_STREAMS_MAX / 2);
	CU_ASSERT(echo_rss_kib() < rss + 3 * (H2_BUFFERED_MAX >> 10) + RSS_SLACK_KIB);
	peer_free(p);
	free(half);
}

/* Asks and asks and never reads an answer. */
static void test_never_reads(void)
{
	struct peer *p = peer_new(true);
	uint64_t rss = echo_rss_kib();

	exchange(p, 10, true);
	for (int i = 0; i < 4000 && !p->eof; i++) {
		static struct body body;
		int32_t id;

		body = (struct body){ .data = (const uint8_t *)"\0\0\0\0\4\x20\x80\x89\x7a", .len = 9 }; /* a reply of 2 MB */
		id = ask(p, (struct ask){ 0 }, &body);
		exchange(p, 2, false);
		if (i % 2) /* takes half of them back */
			nghttp2_submit_rst_stream(p->session, 0, id, NGHTTP2_CANCEL);
	}
	exchange(p, 1000, false);
	CU_ASSERT(echo_stats.begun < 4000);
	CU_ASSERT(echo_rss_kib() < rss + ((H2_STREAMS_MAX * H2_SMALL_MESSAGE + H2_QUEUED_MAX) >> 10) + RSS_SLACK_KIB);
	peer_free(p);
}

static void test_reset_flood(void)
{
	struct peer *p = peer_new(true);
	int n = 0;

	for (; n < CALLS_MAX - 1 && !p->eof; n++) {
		int32_t id = ask(p, (struct ask){ .path = "/test.echo.v1.Echo/Bidi" }, &(struct body){ .open = true });

		exchange(p, 1, n % 16 == 0);
		nghttp2_submit_rst_stream(p->session, 0, id, NGHTTP2_CANCEL);
	}
	exchange(p, 100, true);
	CU_ASSERT_TRUE(p->eof);
	CU_ASSERT(n > 1000);
	peer_free(p);
}

/* ---- bytes by hand ---- */

static bool raw_write(int fd, const void *data, size_t len)
{
	for (int tries = 0; len && tries < 100; tries++) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return false;
		if (n > 0) {
			data = (const char *)data + n;
			len -= (size_t)n;
			tries = 0;
		}
		turns(1);
	}
	return len == 0;
}

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define EMPTY_SETTINGS "\0\0\0\4\0\0\0\0\0"

static void test_floods(void)
{
	static const char ping[] = "\0\0\x08\6\0\0\0\0\0" "abcdefgh", settings[] = EMPTY_SETTINGS;
	static const struct { const char *frame; size_t len; } floods[] = { { ping, sizeof ping - 1 }, { settings, sizeof settings - 1 } };
	uint64_t rss = echo_rss_kib();

	for (size_t i = 0; i < ARRAY_SIZE(floods); i++) {
		int fd = unix_socket_connect(path);
		bool alive = raw_write(fd, PREFACE EMPTY_SETTINGS, sizeof PREFACE EMPTY_SETTINGS - 1);

		CU_ASSERT_TRUE(alive);
		for (int k = 0; alive && k < 1000000; k++) /* nothing is read */
			alive = raw_write(fd, floods[i].frame, floods[i].len);
		CU_ASSERT_FALSE(alive); /* given up, not buffered without end */
		close(fd);
	}
	CU_ASSERT(echo_rss_kib() < rss + RSS_SLACK_KIB);
}

static void test_garbage(void)
{
	static const char garbage[][40] = { "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "", PREFACE "\xff\xff\xff\x4" };

	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		int fd = unix_socket_connect(path);
		char back[1024];
		ssize_t n;

		raw_write(fd, garbage[i], sizeof garbage[i]);
		turns(20);
		while ((n = recv(fd, back, sizeof back, 0)) > 0)
			;
		CU_ASSERT(n == 0 || errno == ECONNRESET);
		close(fd);
	}
	int idle = unix_socket_connect(path); /* and one that says nothing */
	turns(10);
	close(idle);
	turns(10);
}

/* Another user fills what he may; our own still gets in. */
static void test_connections(void)
{
	static int fds[400];
	struct peer *p;
	int32_t id;
	size_t alive = 0;
	char byte;

	if (geteuid())
		return; /* only root can be another user */
	CU_ASSERT_EQUAL(chmod(dir, 0755) | chmod(path, 0666), 0);
	CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
	for (size_t i = 0; i < 400; i++)
		fds[i] = unix_socket_connect(path);
	CU_ASSERT_EQUAL_FATAL(seteuid(0), 0); /* before the server, which is this process too, sees them */
	turns(500);
	for (size_t i = 0; i < 400; i++) {
		ssize_t n = fds[i] < 0 ? 0 : recv(fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK);

		alive += n != 0 && (n > 0 || errno == EAGAIN);
	}
	CU_ASSERT_EQUAL(alive, 256);
	p = peer_new(true);
	id = ask(p, (struct ask){ 0 }, BODY(EMPTY_MESSAGE));
	wait_closed(p, id);
	CU_ASSERT_STRING_EQUAL(p->seen[id / 2].grpc, "0");
	peer_free(p);
	for (size_t i = 0; i < 400; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	turns(600);
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "requests", test_requests }, { "large headers", test_large_headers }, { "early answer", test_early_answer }, { "deadlines", test_deadlines },
		{ "half messages", test_half_messages }, { "never reads", test_never_reads }, { "reset flood", test_reset_flood }, { "floods", test_floods },
		{ "garbage", test_garbage }, { "connections", test_connections },
		CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { .pName = "gRPC peers", .pSetUpFunc = start_server, .pTearDownFunc = stop_server, .pTests = tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	if (!mkdtemp(dir) || CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	snprintf(path, sizeof path, "%s/daemon.socket", dir);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	rmdir(dir);
	return failed ? 1 : 0;
}
