/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/suggest.h"

#include <string.h>

#define LONGEST 40

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edits (insert, delete, replace, swap of neighbours) from a to b. */
static size_t distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	size_t rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *now = rows[2];

	if (la > LONGEST || lb > LONGEST)
		return LONGEST;
	for (size_t j = 0; j <= lb; j++)
		last[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t *spare = before;

		now[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[lb];
}

struct suggest suggest_init(const char *word)
{
	size_t len = strlen(word);

	/* Farther than a third of the word is a different word. */
	return (struct suggest){ word, NULL, len < 3 ? 2 : len / 3 + 2 };
}

void suggest_try(struct suggest *s, const char *candidate)
{
	size_t len = strlen(s->word), d = distance(s->word, candidate);

	/* A beginning is a better hint than a likeness. */
	if (len >= 3 && !strncmp(s->word, candidate, len))
		d = 0;
	if (d < s->distance) {
		s->distance = d;
		s->best = candidate;
	}
}
