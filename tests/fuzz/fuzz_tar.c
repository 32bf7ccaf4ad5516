/* SPDX-License-Identifier: Apache-2.0 */
/* Layers as tar streams, read, merged and walked: the input's first bytes say how it is cut into layers and pieces. */
#include "sink.h"
#include "tar.h"
#include "tree.h"
#include "base/cleanup.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 4
#define ENTRIES_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at;
	size_t left, piece;
};

static int fill(void *user, const uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	struct input *in = user;
	size_t n = in->left < in->piece ? in->left : in->piece;

	*ret = in->at;
	*ret_len = n;
	in->at += n;
	in->left -= n;
	return 0;
}

static int read_layer(struct tree *t, uint32_t layer, struct input *in)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct tar *tar = tar_new(fill, in);
	struct tar_entry e;
	struct entry *made;
	int r = -1;

	tree_begin_layer(t, layer);
	while (tar && (r = tar_next(tar, &e, &err)) == 1) {
		const uint8_t *data;
		uint64_t n, sum = 0;

		r = tree_add(t, layer, &e, &made, &err);
		while (r == 1 && tar_data(tar, &data, &n, &err) == 1) {
			sum += n;
			if (data)
				(void)!memchr(data, 'x', n);
		}
		if (r == 1)
			made->data = (uint32_t)sum;
		if (r < 0)
			break;
	}
	tree_end_layer(t, layer);
	tar_free(tar);
	return r;
}

static unsigned walk(const struct tree *t, uint32_t dir)
{
	_free_ uint32_t *list = NULL;
	uint32_t n;
	unsigned sum = 1;

	if (sink_children(t, dir, &list, &n, NULL))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		struct node *c = tree_node(t, list[i]);
		struct entry *e = tree_inode(t, c);

		if (c->ino == INO_NONE || c->parent != dir)
			abort();
		if (!e || e->type == ENTRY_DIR)
			sum += walk(t, list[i]);
		else if (c->child)
			abort(); /* something below what is no directory */
	}
	return sum + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t layers;
	struct tree t = { 0 };
	size_t each;
	int r = 0;

	if (size < 2)
		return 0;
	layers = data[0] % LAYERS_MAX + 1;
	each = (size - 2) / layers / 512 * 512;
	if (!tree_init(&t, layers, ENTRIES_MAX, NULL)) {
		for (uint32_t i = layers; i-- > 0 && r >= 0;) {
			struct input in = { .at = data + 2 + i * each, .left = i + 1 == layers ? size - 2 - i * each : each, .piece = data[1] * 7u + 1 };

			r = read_layer(&t, i, &in);
		}
		if (r >= 0 && !merge_layers(&t, NULL))
			walk(&t, TREE_ROOT);
	}
	tree_free(&t);
	return 0;
}
