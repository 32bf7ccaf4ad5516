/* SPDX-License-Identifier: Apache-2.0 */
/* Two links, a channel between them that is cut and damaged at will. */
#include "base/buf.h"
#include "rpc/link.h"

#include <CUnit/Basic.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct end {
	struct link *link;
	struct buf out;      /* bytes on their way to the other end */
	struct buf got;      /* the last message */
	unsigned messages, ups;
};

static struct end host, guest;

static void on_output(void *user, const uint8_t *data, size_t len)
{
	struct end *e = user;

	buf_append(&e->out, data, len);
}

static void on_up(void *user)
{
	struct end *e = user;

	e->ups++;
}

static void on_message(void *user, const uint8_t *data, size_t len)
{
	struct end *e = user;

	e->messages++;
	buf_clear(&e->got);
	buf_append(&e->got, data, len);
}

static const struct link_ops ops = { on_output, on_up, on_message };

static void clear(struct end *e)
{
	link_free(e->link);
	buf_free(&e->out);
	buf_free(&e->got);
	memset(e, 0, sizeof *e);
}

static void both_new(void)
{
	clear(&host);
	clear(&guest);
	host.link = link_new(LINK_HOST, &ops, &host);
	guest.link = link_new(LINK_GUEST, &ops, &guest);
}

/* Carries what is on its way until nothing is, in pieces of `piece` bytes. */
static void carry(size_t piece)
{
	for (int rounds = 0; (host.out.len || guest.out.len) && rounds < 100; rounds++) {
		struct end *from[] = { &host, &guest }, *to[] = { &guest, &host };

		for (int i = 0; i < 2; i++) {
			struct buf b = from[i]->out;

			from[i]->out = (struct buf)BUF_INIT;
			for (size_t at = 0; at < b.len; at += piece)
				link_feed(to[i]->link, b.data + at, b.len - at < piece ? b.len - at : piece);
			buf_free(&b);
		}
	}
	CU_ASSERT(!host.out.len && !guest.out.len);
}

static void connect_both(void)
{
	both_new();
	link_open(host.link);
	carry(SIZE_MAX);
	CU_ASSERT_FATAL(link_is_up(host.link) && link_is_up(guest.link));
	CU_ASSERT_EQUAL(host.ups, 1);
	CU_ASSERT_EQUAL(guest.ups, 1);
}

static uint8_t *pattern(size_t n, unsigned kind)
{
	uint8_t *p = malloc(n + 1);

	for (size_t i = 0; i < n; i++)
		p[i] = kind == 0 ? 0 : kind == 1 ? 0xff : kind == 2 ? (uint8_t)(i * 7 + (i >> 8)) : (uint8_t)(i % 255 + 1);
	return p;
}

static void test_sizes(void)
{
	static const size_t sizes[] = { 0, 1, 2, 235, 236, 237, 238, 239, 240, 253, 254, 255, 256, 508, 509, LINK_MAX_PAYLOAD - 1, LINK_MAX_PAYLOAD, LINK_MAX_PAYLOAD + 1,
					3 * LINK_MAX_PAYLOAD, LINK_MAX_MESSAGE };

	connect_both();
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		for (unsigned kind = 0; kind < 4; kind++) {
			uint8_t *p = pattern(sizes[i], kind);
			unsigned before = guest.messages;

			CU_ASSERT_EQUAL(link_send(host.link, p, sizes[i]), 0);
			carry(kind ? 1000 : SIZE_MAX);
			CU_ASSERT_EQUAL(guest.messages, before + 1);
			CU_ASSERT_EQUAL(guest.got.len, sizes[i]);
			CU_ASSERT(!sizes[i] || !memcmp(guest.got.data, p, sizes[i]));
			CU_ASSERT_EQUAL(link_send(guest.link, p, sizes[i]), 0);
			carry(SIZE_MAX);
			CU_ASSERT(host.got.len == sizes[i] && (!sizes[i] || !memcmp(host.got.data, p, sizes[i])));
			free(p);
		}
	CU_ASSERT_EQUAL(host.ups, 1);
	CU_ASSERT_EQUAL(link_send(host.link, (const uint8_t *)"", LINK_MAX_MESSAGE + 1), -EMSGSIZE);
}

static void test_single_bytes(void)
{
	both_new();
	link_open(host.link);
	carry(1);
	CU_ASSERT(link_is_up(host.link) && link_is_up(guest.link));
	link_send(host.link, (const uint8_t *)"one by one", 10);
	carry(1);
	CU_ASSERT(guest.got.len == 10 && !memcmp(guest.got.data, "one by one", 10));
}

static void test_not_up(void)
{
	both_new();
	CU_ASSERT_EQUAL(link_send(host.link, (const uint8_t *)"x", 1), -ENOTCONN);
	CU_ASSERT_EQUAL(link_send(guest.link, (const uint8_t *)"x", 1), -ENOTCONN);
	link_open(host.link);
	buf_clear(&host.out); /* the guest has not started yet */
	link_tick(host.link);
	carry(SIZE_MAX);
	CU_ASSERT(link_is_up(host.link));
	link_tick(host.link);
	CU_ASSERT_EQUAL(host.out.len, 0);
}

/* A guest that starts late asks, and needs no tick. */
static void test_guest_asks(void)
{
	both_new();
	link_open(host.link);
	buf_clear(&host.out);
	link_open(guest.link);
	carry(SIZE_MAX);
	CU_ASSERT(link_is_up(host.link) && link_is_up(guest.link));
	/* and one that was started anew gets a new epoch */
	link_free(guest.link);
	guest.link = link_new(LINK_GUEST, &ops, &guest);
	link_open(guest.link);
	carry(SIZE_MAX);
	CU_ASSERT(link_is_up(host.link) && link_is_up(guest.link));
	CU_ASSERT_EQUAL(host.ups, 2);
}

/* Several messages each way. */
static void talk(void)
{
	uint8_t *p = pattern(700, 2);

	for (size_t i = 0; i < 3; i++) {
		link_send(host.link, p, 300 * i + 3);
		link_send(guest.link, p, 300 * i + 5);
	}
	free(p);
}

/* After whatever happened: the host opens the channel again and everything works. */
static void expect_recovery(void)
{
	unsigned before = guest.messages;

	link_open(host.link);
	carry(SIZE_MAX);
	CU_ASSERT(link_is_up(host.link) && link_is_up(guest.link));
	before = guest.messages;
	CU_ASSERT_EQUAL(link_send(host.link, (const uint8_t *)"again", 5), 0);
	CU_ASSERT_EQUAL(link_send(guest.link, (const uint8_t *)"here", 4), 0);
	carry(SIZE_MAX);
	CU_ASSERT_EQUAL(guest.messages, before + 1);
	CU_ASSERT(guest.got.len == 5 && !memcmp(guest.got.data, "again", 5));
	CU_ASSERT(host.got.len == 4 && !memcmp(host.got.data, "here", 4));
}

static void test_every_cut(void)
{
	size_t total;

	connect_both();
	talk();
	total = host.out.len > guest.out.len ? host.out.len : guest.out.len;
	for (size_t cut = 0; cut <= total; cut++) {
		connect_both();
		talk();
		/* each end gets only the first bytes, then the channel is gone */
		link_feed(guest.link, host.out.data, cut < host.out.len ? cut : host.out.len);
		link_feed(host.link, guest.out.data, cut < guest.out.len ? cut : guest.out.len);
		CU_ASSERT(guest.messages <= 3 && host.messages <= 3);
		buf_clear(&host.out);
		buf_clear(&guest.out);
		expect_recovery();
	}
}

/* Bytes missing from the middle of a stream that goes on: nothing wrong is handed over, a new epoch begins by itself. */
static void test_every_hole(void)
{
	size_t total;

	connect_both();
	talk();
	total = host.out.len;
	for (size_t at = 0; at < total; at++) {
		struct buf b;

		connect_both();
		talk();
		b = host.out;
		host.out = (struct buf)BUF_INIT;
		link_feed(guest.link, b.data, at);
		if (at + 7 < b.len)
			link_feed(guest.link, b.data + at + 7, b.len - at - 7);
		buf_free(&b);
		CU_ASSERT(guest.messages <= 3);
		carry(SIZE_MAX);
		if (guest.messages < 3 && at + 7 < total)
			CU_ASSERT_EQUAL(host.ups, 2);
		expect_recovery();
	}
}

static void test_every_flip(void)
{
	size_t total;

	connect_both();
	talk();
	total = guest.out.len;
	for (size_t at = 0; at < total; at++) {
		connect_both();
		talk();
		guest.out.data[at] ^= (uint8_t)(1u << at % 8);
		link_feed(host.link, guest.out.data, guest.out.len);
		CU_ASSERT(host.messages <= 3);
		if (host.messages)
			CU_ASSERT(host.got.len == 5 || host.got.len == 305 || host.got.len == 605);
		buf_clear(&guest.out);
		carry(SIZE_MAX);
		expect_recovery();
	}
}

/* What an older connection left in the channel arrives late. */
static void test_stale(void)
{
	struct buf old;

	connect_both();
	talk();
	old = guest.out;
	guest.out = (struct buf)BUF_INIT;
	buf_clear(&host.out);
	link_open(host.link);
	link_feed(host.link, old.data, old.len);
	CU_ASSERT_EQUAL(host.messages, 0);
	carry(SIZE_MAX);
	link_feed(host.link, old.data, old.len);
	CU_ASSERT_EQUAL(host.messages, 0);
	CU_ASSERT(link_is_up(host.link));
	buf_free(&old);
	expect_recovery();
}

static void test_noise(void)
{
	uint8_t noise[4096];

	srand(7);
	connect_both();
	for (int i = 0; i < 200; i++) {
		for (size_t k = 0; k < sizeof noise; k++)
			noise[k] = (uint8_t)(rand() >> 7);
		link_feed(host.link, noise, sizeof noise);
		link_feed(guest.link, noise, sizeof noise);
		buf_clear(&host.out);
		buf_clear(&guest.out);
	}
	/* and one packet without end */
	memset(noise, 'x', sizeof noise);
	for (int i = 0; i < 100; i++) {
		link_feed(host.link, noise, sizeof noise);
		link_feed(guest.link, noise, sizeof noise);
	}
	CU_ASSERT_EQUAL(host.messages, 0);
	CU_ASSERT_EQUAL(guest.messages, 0);
	expect_recovery();
}

int main(void)
{
	CU_pSuite s;
	unsigned failed;

	CU_initialize_registry();
	s = CU_add_suite("link", NULL, NULL);
	CU_ADD_TEST(s, test_sizes);
	CU_ADD_TEST(s, test_single_bytes);
	CU_ADD_TEST(s, test_not_up);
	CU_ADD_TEST(s, test_guest_asks);
	CU_ADD_TEST(s, test_every_cut);
	CU_ADD_TEST(s, test_every_hole);
	CU_ADD_TEST(s, test_every_flip);
	CU_ADD_TEST(s, test_stale);
	CU_ADD_TEST(s, test_noise);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	clear(&host);
	clear(&guest);
	CU_cleanup_registry();
	return failed != 0;
}
