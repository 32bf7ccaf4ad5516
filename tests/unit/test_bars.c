/* SPDX-License-Identifier: Apache-2.0 */
/* Bars of any pull on any terminal: no line reaches the last column, there are never more lines than rows, and what was drawn is taken away
 * line for line. What they look like is tested on screens (tests/integration/progress-terminal.py). */
#include "base/bars.h"
#include "base/text.h"

#include <CUnit/Basic.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 70
#define STEP 100000000u

static unsigned up(const char **s)
{
	unsigned n = 0;

	if (strncmp(*s, "\r\033[", 3))
		return 0;
	n = (unsigned)strtoul(*s + 3, (char **)s, 10);
	CU_ASSERT_EQUAL(**s, 'A');
	(*s)++;
	return n;
}

/* One frame; the lines in it. */
static unsigned check_frame(const struct buf *out, const struct bars_terminal *t, unsigned before)
{
	const char *s = (const char *)out->data;
	unsigned lines = 0;

	CU_ASSERT_EQUAL(up(&s), before);
	while (strcmp(s, "\033[J")) {
		const char *end = strstr(s, "\033[K\n");
		char line[1024];

		CU_ASSERT_PTR_NOT_NULL_FATAL(end);
		CU_ASSERT_FATAL((size_t)(end - s) < sizeof line);
		memcpy(line, s, (size_t)(end - s));
		line[end - s] = 0;
		CU_ASSERT(text_valid_utf8(line, strlen(line)));
		CU_ASSERT(text_width(line) < t->columns);
		s = end + 4;
		lines++;
	}
	CU_ASSERT(lines >= 1 && lines < t->rows);
	return lines;
}

static void random_report(struct bars_report *r, struct bars_layer *layers, size_t n)
{
	static const char *const titles[] = { "x", "docker.io/library/alpine:3.20", "registry.example:5000/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z:latest", "oci:/tmp/\xe7\x8c\xab\xe7\x8c\xab\xe7\x8c\xab", "" };

	*r = (struct bars_report){ .title = titles[(size_t)rand() % 5], .doing = rand() % 2 ? "downloading layers" : "x", .layers = layers, .n_layers = n };
	for (size_t i = 0; i < n; i++) {
		uint64_t total = rand() % 5 ? (uint64_t)rand() * (uint64_t)(rand() % 100000) : 0;

		layers[i] = (struct bars_layer){ "sha256:0123456789abcdef0123456789abcdef", (enum bars_state)(rand() % 3), "extracting", rand() % 3 ? total / 3 : total + 7, total };
		r->current += layers[i].current;
		r->total += total;
	}
}

static void any(void)
{
	struct bars_layer layers[LAYERS];

	srand(1);
	for (unsigned run = 0; run < 300; run++) {
		struct bars *b = bars_new();
		_buf_ struct buf out = BUF_INIT;
		uint64_t now = 1000;
		unsigned drawn = 0;

		CU_ASSERT_PTR_NOT_NULL_FATAL(b);
		for (unsigned frame = 0; frame < 30; frame++) {
			struct bars_terminal t = { 2 + (unsigned)rand() % 40, 1 + (unsigned)rand() % 130, rand() % 2 };
			struct bars_report r;

			random_report(&r, layers, (size_t)rand() % LAYERS);
			buf_clear(&out);
			bars_draw(b, &t, &r, now, &out);
			now += STEP;
			if (out.len)
				drawn = check_frame(&out, &t, drawn);
			CU_ASSERT_EQUAL(out.len > 0, frame >= 2);
		}
		buf_clear(&out);
		bars_clear(b, &out);
		const char *s = (const char *)out.data;
		CU_ASSERT_EQUAL(up(&s), drawn);
		CU_ASSERT_STRING_EQUAL(s, "\033[J");
		buf_clear(&out);
		bars_clear(b, &out);
		CU_ASSERT_EQUAL(out.len, 0);
		bars_free(b);
	}
}

static void sizes(void)
{
	static const struct { uint64_t bytes; const char *text; } cases[] = {
		{ 0, "0 B" }, { 1023, "1023 B" }, { 1024, "1.0 KiB" }, { 102340, "99.9 KiB" }, { 102400, "100 KiB" }, { 1048575, "1.0 MiB" }, { 1ull << 40, "1.0 TiB" }, { UINT64_MAX, "16777216 TiB" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		_buf_ struct buf b = BUF_INIT;

		text_size(&b, cases[i].bytes);
		CU_ASSERT_STRING_EQUAL((const char *)b.data, cases[i].text);
	}
}

static void terminals(void)
{
	struct bars_terminal t;

	setenv("LC_ALL", "", 1);
	setenv("LC_CTYPE", "de_DE.utf8", 1);
	CU_ASSERT(!bars_terminal(-1, &t)); /* none */
	CU_ASSERT(t.utf8 && t.rows == 24 && t.columns == 80);
	setenv("LC_ALL", "C", 1);
	bars_terminal(-1, &t);
	CU_ASSERT(!t.utf8);
	setenv("LC_ALL", "de_DE.ISO-8859-1", 1);
	bars_terminal(-1, &t);
	CU_ASSERT(!t.utf8);
	setenv("LC_ALL", "C.UTF-8", 1);
	bars_terminal(-1, &t);
	CU_ASSERT(t.utf8);
}

int main(void)
{
	CU_pSuite s;

	setlocale(LC_CTYPE, "C.UTF-8");
	if (CU_initialize_registry())
		return 1;
	s = CU_add_suite("bars", NULL, NULL);
	CU_ADD_TEST(s, any);
	CU_ADD_TEST(s, sizes);
	CU_ADD_TEST(s, terminals);
	CU_basic_run_tests();
	return CU_get_number_of_failures() > 0;
}
