/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <sys/mman.h>

int table_init(struct table *t, size_t size, uint32_t max, struct edera_error *err)
{
	void *p = mmap(NULL, size * max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return err_errno(err, -errno, "cannot reserve %zu bytes of address space", size * max);
	*t = (struct table){ .base = p, .size = size, .max = max };
	return 0;
}

void table_free(struct table *t)
{
	if (t->base)
		munmap(t->base, t->size * t->max);
	t->base = NULL;
}

int table_add(struct table *t, uint32_t n, uint32_t *ret)
{
	if (n > t->max - t->count)
		return -ENOSPC;
	*ret = t->count;
	t->count += n;
	return 0;
}
