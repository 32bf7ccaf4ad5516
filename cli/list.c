/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/alloc.h"

void list_add(struct list *l, const void *row)
{
	l->rows = need(reallocarray(l->rows, l->n + 1, sizeof *l->rows));
	l->rows[l->n++] = row;
}

void list_free(struct list *l)
{
	free(l->rows);
	*l = (struct list){ 0 };
}

int list_select(struct list *l, const struct strings *selectors, const ProtobufCMessageDescriptor *d)
{
	for (size_t i = 0; i < selectors->n; i++) {
		struct edera_error err = EDERA_ERROR_INIT;
		struct selector *s = NULL;
		size_t kept = 0;

		if (selector_new(selectors->v[i], d, &s, &err))
			return cli_bad_usage("%s", err.msg);
		for (size_t k = 0; k < l->n; k++)
			if (selector_match(s, l->rows[k]))
				l->rows[kept++] = l->rows[k];
		l->n = kept;
		selector_free(s);
	}
	return 0;
}

static int compare_rows(const void *a, const void *b, void *compare)
{
	int (*f)(const void *, const void *) = *(int (**)(const void *, const void *))compare;

	return f(*(const void *const *)a, *(const void *const *)b);
}

void list_sort(struct list *l, int (*compare)(const void *, const void *))
{
	if (l->n)
		qsort_r(l->rows, l->n, sizeof *l->rows, compare_rows, &compare);
}

int list_print(struct list *l, const struct list_args *args, const struct list_view *view, const ProtobufCMessageDescriptor *d)
{
	struct buf out _buf_ = BUF_INIT;
	struct list_view shown = *view;
	int r = list_select(l, &args->selectors, d);

	if (r)
		return r;
	/* An empty answer to a question is not "there are none". */
	if (args->selectors.n)
		shown.empty = NULL;
	format_list(&out, format_parse(args->output), &shown, l->rows, l->n, format_colours(stdout));
	cli_print(&out);
	return 0;
}
