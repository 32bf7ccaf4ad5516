/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b, void *user)
{
	const struct tree *t = user;

	return strcmp(tree_text(t, tree_node(t, *(const uint32_t *)a)->name), tree_text(t, tree_node(t, *(const uint32_t *)b)->name));
}

int sink_children(const struct tree *t, uint32_t dir, uint32_t **ret, uint32_t *ret_n, struct edera_error *err)
{
	uint32_t n = 0, *list;

	for (uint32_t at = tree_node(t, dir)->child; at; at = tree_node(t, at)->next)
		n++;
	list = malloc((n ? n : 1) * sizeof *list);
	if (!list)
		return err_errno(err, -ENOMEM, "cannot list a directory of the image");
	n = 0;
	for (uint32_t at = tree_node(t, dir)->child; at; at = tree_node(t, at)->next)
		list[n++] = at;
	qsort_r(list, n, sizeof *list, by_name, (void *)t);
	*ret = list;
	*ret_n = n;
	return 0;
}
