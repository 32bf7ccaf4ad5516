/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Two numbers of any length. */
static int compare_numbers(const char **a, const char **b)
{
	size_t n, m;
	int r;

	*a += strspn(*a, "0");
	*b += strspn(*b, "0");
	n = strspn(*a, "0123456789");
	m = strspn(*b, "0123456789");
	r = n != m ? (n < m ? -1 : 1) : strncmp(*a, *b, n);
	*a += n;
	*b += m;
	return r;
}

static bool is_candidate(const char *p, const char *start)
{
	return !strncmp(p, "-rc", 3) || (p > start && p[-1] == '-' && !strncmp(p, "rc", 2));
}

int version_compare(const char *a, const char *b)
{
	const char *start_a = a, *start_b = b;
	bool rc;

	while (*a && *b) {
		if (is_digit(*a) && is_digit(*b)) {
			int r = compare_numbers(&a, &b);

			if (r)
				return r;
		} else if (*a != *b) {
			break;
		} else {
			a++;
			b++;
		}
	}
	/* A release candidate comes before its release; any other addition after it. */
	rc = is_candidate(a, start_a);
	if (rc != is_candidate(b, start_b))
		return rc ? -1 : 1;
	return !*a || !*b ? (*a != 0) - (*b != 0) : (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}
