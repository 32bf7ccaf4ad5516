/* SPDX-License-Identifier: Apache-2.0 */
/* What a source of kernel variants promises. --expect NAME=IMAGE says what it must offer. */
#include "contract.h"
#include "base/cleanup.h"
#include "base/reference.h"
#include "base/text.h"

#include <edera/variant_source.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>

#define MAX_VARIANTS 1024

static const struct options *opt_;
static const struct edera_variant_source_ops *source;
static void *inst_;

struct offer {
	char name[64], image[REFERENCE_CAP], digest[EDERA_DIGEST_MAX], version[128];
};

struct offers {
	struct offer list[MAX_VARIANTS];
	size_t n;
	const char *wrong; /* what is not as promised */
	int result;
	uint32_t flags;
	pthread_t thread;
};

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

static struct edera_call *bound(int64_t ms)
{
	static _Thread_local struct edera_call c;

	c = (struct edera_call){ .size = sizeof c, .cancel_fd = -1, .deadline_ns = (now() + ms) * 1000000 };
	return &c;
}

static bool good_name(const char *name)
{
	size_t n = strlen(name);

	if (!isalnum((unsigned char)*name) || n > 63)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
			return false;
	return true;
}

static int take(void *user, const struct edera_variant *v)
{
	struct offers *o = user;
	struct reference ref;

	if (v->size < sizeof *v)
		o->wrong = "size";
	else if (!v->name || !good_name(v->name))
		o->wrong = "a name";
	else if (!v->image || reference_parse(v->image, &ref, NULL))
		o->wrong = "an image";
	else if (!v->digest || (*v->digest && !text_valid_digest(v->digest)))
		o->wrong = "a digest";
	else if (!v->version)
		o->wrong = "a version";
	if (o->wrong || o->n == MAX_VARIANTS)
		return 1;
	snprintf(o->list[o->n].name, sizeof o->list->name, "%s", v->name);
	snprintf(o->list[o->n].image, sizeof o->list->image, "%s", v->image);
	snprintf(o->list[o->n].digest, sizeof o->list->digest, "%s", v->digest);
	snprintf(o->list[o->n].version, sizeof o->list->version, "%s", v->version);
	o->n++;
	return 0;
}

static int by_name(const void *a, const void *b) { return strcmp(((const struct offer *)a)->name, ((const struct offer *)b)->name); }

/* In whatever order. */
static bool same(struct offers *a, struct offers *b)
{
	if (a->n != b->n)
		return false;
	qsort(a->list, a->n, sizeof *a->list, by_name);
	qsort(b->list, b->n, sizeof *b->list, by_name);
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->list[i].name, b->list[i].name) || strcmp(a->list[i].image, b->list[i].image) || strcmp(a->list[i].digest, b->list[i].digest) ||
		    strcmp(a->list[i].version, b->list[i].version))
			return false;
	return true;
}

static void test_table(void)
{
	CHECK(source->size >= sizeof *source);
	CHECK(source->list != NULL);
}

static void test_list(void)
{
	static struct offers first, second, fresh;
	struct edera_error err = EDERA_ERROR_INIT;

	first.n = second.n = fresh.n = 0;
	CHECK_ERR(source->list(inst_, bound(60000), 0, take, &first, &err) == 0, &err);
	if (first.wrong)
		printf("    wrong: %s\n", first.wrong);
	CHECK(!first.wrong);
	for (size_t i = 0; i < first.n; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(first.list[i].name, first.list[k].name)); /* each name once */
	CHECK_ERR(source->list(inst_, bound(60000), 0, take, &second, &err) == 0 && same(&first, &second), &err);
	CHECK_ERR(source->list(inst_, bound(60000), EDERA_VARIANT_REFRESH, take, &fresh, &err) == 0 && same(&first, &fresh), &err);
}

static void test_expected(void)
{
	static struct offers all;

	all.n = 0;
	CHECK(source->list(inst_, bound(60000), 0, take, &all, NULL) == 0);
	for (const char *const *e = opt_->expect; *e; e++) {
		bool found = false;

		for (size_t i = 0; i < all.n; i++) {
			size_t n = strlen(all.list[i].name);

			found |= !strncmp(*e, all.list[i].name, n) && (*e)[n] == '=' && !strcmp(*e + n + 1, all.list[i].image);
		}
		if (!found)
			printf("    not offered: %s\n", *e);
		CHECK(found);
	}
}

static int stop(void *user, const struct edera_variant *v)
{
	++*(int *)user;
	return 42;
}

static void test_stops(void)
{
	int calls = 0, r = source->list(inst_, bound(60000), 0, stop, &calls, NULL);

	CHECK(calls <= 1 && r == (calls ? 42 : 0));
}

static void *list_often(void *user)
{
	struct offers *o = user;

	for (int i = 0; i < 20 && !o->result && !o->wrong; i++) {
		o->n = 0;
		o->result = source->list(inst_, bound(60000), i == 7 ? o->flags : 0, take, o, NULL);
	}
	return NULL;
}

static void test_together(void)
{
	static struct offers o[8];

	for (size_t i = 0; i < ARRAY_SIZE(o); i++) {
		o[i].result = 0;
		o[i].flags = EDERA_VARIANT_REFRESH;
		pthread_create(&o[i].thread, NULL, list_often, &o[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		pthread_join(o[i].thread, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		CHECK(!o[i].result && !o[i].wrong && same(&o[i], &o[0]));
}

/* Given up, or out of time: an answer comes soon, whatever it is. */
static void test_bounds(void)
{
	static struct offers o;
	struct itimerspec soon = { .it_value = { 0, 300000000 } };
	struct edera_call *c = bound(60000);
	int64_t start = now();
	int r;

	c->cancel_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	timerfd_settime(c->cancel_fd, 0, &soon, NULL);
	o.n = 0;
	r = source->list(inst_, c, EDERA_VARIANT_REFRESH, take, &o, NULL);
	CHECK((r == 0 || r == -ECANCELED || r == -ETIMEDOUT) && !o.wrong);
	CHECK(now() - start < 10000);
	start = now();
	o.n = 0;
	r = source->list(inst_, bound(300), EDERA_VARIANT_REFRESH, take, &o, NULL);
	CHECK((r == 0 || r == -ETIMEDOUT) && !o.wrong);
	CHECK(now() - start < 10000);
}

void test_variant_source(const struct options *o, const struct edera_provide *p, void *inst)
{
	static const struct test tests[] = {
		{ "table", test_table, 0 }, { "list", test_list, 1 }, { "expected", test_expected, 1 }, { "stops", test_stops, 1 }, { "together", test_together, 1 },
		{ "bounds", test_bounds, 0 },
	};

	opt_ = o;
	source = p->ops;
	inst_ = inst;
	run_tests(o, tests, ARRAY_SIZE(tests), !o->unreachable);
}
