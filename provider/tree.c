/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NO_NODE 0xffffffffu

static int full(const struct tree *t, struct edera_error *err)
{
	return err_set(err, -E2BIG, "the image has more than the %u entries allowed (--max-entries)", t->entries.max);
}

static int add_text(struct tree *t, const void *data, size_t n, uint32_t *ret, struct edera_error *err)
{
	if (table_add(&t->texts, (uint32_t)n, ret))
		return err_set(err, -E2BIG, "the names and attributes in the image take more than the %u bytes allowed (--max-entries)", t->texts.max);
	memcpy(table_at(&t->texts, *ret), data, n);
	return 0;
}

static int new_node(struct tree *t, uint32_t parent, const char *name, size_t len, uint32_t *ret, struct edera_error *err)
{
	struct node *n;
	uint32_t text;
	int r;

	if (len > 255)
		return err_set(err, -ENAMETOOLONG, "the name '%.60s...' in the image is longer than 255 bytes", name);
	if (table_add(&t->nodes, 1, ret))
		return full(t, err);
	r = add_text(t, name, len, &text, err);
	if (r || (r = add_text(t, "", 1, &(uint32_t){ 0 }, err)))
		return r;
	n = tree_node(t, *ret);
	n->parent = parent;
	n->name = text;
	n->name_len = (uint8_t)len;
	n->depth = (uint16_t)(*ret == TREE_ROOT ? 0 : tree_node(t, parent)->depth + 1);
	return 0;
}

int tree_init(struct tree *t, uint32_t n_layers, uint32_t max_entries, struct edera_error *err)
{
	uint32_t root;
	int r;

	*t = (struct tree){ .n_layers = n_layers, .n_buckets = 4096 };
	if (getrandom(&t->seed, sizeof t->seed, 0) != sizeof t->seed)
		t->seed = (uintptr_t)t;
	t->first = calloc(n_layers, sizeof *t->first);
	t->end = calloc(n_layers, sizeof *t->end);
	t->buckets = malloc(t->n_buckets * sizeof *t->buckets);
	if (!t->first || !t->end || !t->buckets)
		return err_errno(err, -ENOMEM, "cannot make a tree");
	memset(t->buckets, 0xff, t->n_buckets * sizeof *t->buckets);
	r = table_init(&t->nodes, sizeof(struct node), max_entries + 1, err);
	if (!r)
		r = table_init(&t->entries, sizeof(struct entry), max_entries, err);
	if (!r)
		r = table_init(&t->texts, 1, max_entries > (1u << 25) ? 1u << 31 : 1u << 20 | max_entries << 6, err);
	if (!r)
		r = add_text(t, "", 1, &root, err); /* offset 0 means "none" */
	return r ? r : new_node(t, TREE_ROOT, "", 0, &root, err);
}

void tree_free(struct tree *t)
{
	table_free(&t->nodes);
	table_free(&t->entries);
	table_free(&t->texts);
	free(t->buckets);
	free(t->first);
	free(t->end);
}

static uint32_t bucket_of(const struct tree *t, uint32_t parent, const char *name, size_t len)
{
	uint64_t h = t->seed ^ parent * 0x9e3779b97f4a7c15ull, w;

	for (; len >= 8; name += 8, len -= 8) {
		memcpy(&w, name, 8);
		h = (h ^ w) * 0xff51afd7ed558ccdull;
		h ^= h >> 32 ^ t->seed >> 7;
	}
	w = len;
	while (len > 0)
		w = w << 8 | (uint8_t)name[--len];
	h = (h ^ w) * 0xc4ceb9fe1a85ec53ull;
	h ^= h >> 29;
	return (uint32_t)(h * 0x9e3779b97f4a7c15ull >> 32) & (t->n_buckets - 1);
}

static int grow(struct tree *t, struct edera_error *err)
{
	uint32_t n = t->n_buckets * 2;
	uint32_t *more = malloc(n * sizeof *more);

	if (!more)
		return err_errno(err, -ENOMEM, "cannot grow a tree");
	free(t->buckets);
	memset(more, 0xff, n * sizeof *more);
	t->buckets = more;
	t->n_buckets = n;
	for (uint32_t i = 1; i < t->nodes.count; i++) {
		struct node *d = tree_node(t, i);
		uint32_t *b = &t->buckets[bucket_of(t, d->parent, tree_text(t, d->name), d->name_len)];

		d->hash_next = *b;
		*b = i;
	}
	return 0;
}

int tree_child(struct tree *t, uint32_t parent, const char *name, size_t len, bool make, uint32_t *ret, struct edera_error *err)
{
	uint32_t *b = &t->buckets[bucket_of(t, parent, name, len)], at;
	int r;

	for (at = *b; at != NO_NODE; at = tree_node(t, at)->hash_next) {
		struct node *n = tree_node(t, at);

		if (n->parent == parent && n->name_len == len && memcmp(tree_text(t, n->name), name, len) == 0) {
			*ret = at;
			return 0;
		}
	}
	if (!make)
		return -ENOENT;
	r = new_node(t, parent, name, len, &at, err);
	if (r)
		return r;
	tree_node(t, at)->hash_next = *b;
	*b = at;
	*ret = at;
	return t->nodes.count > t->n_buckets ? grow(t, err) : 0;
}

const char *tree_path(const struct tree *t, uint32_t node, char *dst, size_t cap)
{
	size_t at = cap - 1;

	dst[at] = 0;
	while (node != TREE_ROOT) {
		const struct node *n = tree_node(t, node);

		if (at < (size_t)n->name_len + 1)
			break;
		at -= n->name_len;
		memcpy(dst + at, tree_text(t, n->name), n->name_len);
		dst[--at] = '/';
		node = n->parent;
	}
	return at == cap - 1 ? "/" : dst + at;
}

/* Where a path as written in a layer leads, without following links. */
struct place {
	uint32_t node, parent;
	const char *base; /* last component, as given */
	size_t base_len;
	bool hidden;      /* a newer layer hides what this layer has here */
	bool leftover;    /* below a name that storage drivers keep for themselves */
};

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define LEFTOVER ".wh..wh."

/* Splits off the next component; false at the end. */
static bool component(const char **p, const char **ret, size_t *ret_len)
{
	while (**p == '/')
		++*p;
	*ret = *p;
	while (**p && **p != '/')
		++*p;
	*ret_len = (size_t)(*p - *ret);
	return *ret_len > 0;
}

static bool is(const char *name, size_t len, const char *what) { return strlen(what) == len && memcmp(name, what, len) == 0; }
static bool begins(const char *name, size_t len, const char *what) { return strlen(what) <= len && memcmp(name, what, strlen(what)) == 0; }

/* Finds (or makes) the nodes of a path up to the directory of its last component. ".." is clamped at the root, as in a chroot. */
static int locate(struct tree *t, uint32_t layer, const char *path, struct place *ret, struct edera_error *err)
{
	uint32_t stack[TREE_DEPTH_MAX + 1], depth = 0;
	const char *p = path, *name, *next;
	size_t len, next_len;
	bool more;

	*ret = (struct place){ .node = TREE_ROOT };
	stack[0] = TREE_ROOT;
	more = component(&p, &name, &len);
	while (more) {
		do /* "." leads nowhere, and must not pass for the last component */
			more = component(&p, &next, &next_len);
		while (more && is(next, next_len, "."));
		if (is(name, len, "..")) {
			depth -= depth > 0;
		} else if (!is(name, len, ".")) {
			if (more && begins(name, len, WHITEOUT))
				ret->leftover = true;
			if (depth == TREE_DEPTH_MAX)
				return err_set(err, -ENAMETOOLONG, "the path '%.200s' in a layer is deeper than %d directories", path, TREE_DEPTH_MAX);
			if (!more) {
				ret->base = name;
				ret->base_len = len;
				break;
			}
			if (!ret->leftover) {
				int r = tree_child(t, stack[depth], name, len, true, &stack[depth + 1], err);

				if (r)
					return r;
				depth++;
			}
		}
		name = next;
		len = next_len;
	}
	ret->parent = stack[depth];
	for (uint32_t i = 0; i <= depth; i++)
		if (tree_node(t, stack[i])->hides_below > layer + 1)
			ret->hidden = true;
	return 0;
}

static void raise_mark(uint16_t *mark, uint32_t layer)
{
	if (*mark < layer + 1)
		*mark = (uint16_t)(layer + 1);
}

static int append(struct tree *t, enum entry_type type, uint32_t node, struct entry **ret, struct edera_error *err)
{
	uint32_t i;

	if (table_add(&t->entries, 1, &i))
		return full(t, err);
	*ret = tree_entry(t, i);
	(*ret)->node = node;
	(*ret)->type = type;
	return 0;
}

static int add_whiteout(struct tree *t, uint32_t layer, const struct place *w, struct edera_error *err)
{
	const char *name = w->base + strlen(WHITEOUT);
	size_t len = w->base_len - strlen(WHITEOUT);
	struct entry *e;
	struct node *n;
	uint32_t at;
	int r;

	if (is(w->base, w->base_len, OPAQUE)) {
		raise_mark(&tree_node(t, w->parent)->hides_below, layer);
		return append(t, ENTRY_OPAQUE, w->parent, &e, err);
	}
	if (begins(w->base, w->base_len, LEFTOVER)) {
		t->skipped_names++;
		return 0;
	}
	if (len == 0 || is(name, len, ".") || is(name, len, ".."))
		return err_set(err, -EBADMSG, "the whiteout '%.*s' in a layer names nothing that could be deleted", (int)w->base_len, w->base);
	r = tree_child(t, w->parent, name, len, true, &at, err);
	if (r)
		return r;
	n = tree_node(t, at);
	raise_mark(&n->hides_self, layer);
	raise_mark(&n->hides_below, layer);
	return append(t, ENTRY_WHITEOUT, at, &e, err);
}

static uint32_t clamp_time(int64_t s) { return s < 0 ? 0 : s > 0xffffffffll ? 0xffffffffu : (uint32_t)s; }

static int keep_metadata(struct tree *t, const struct tar_entry *from, struct entry *e, struct edera_error *err)
{
	uint32_t len = (uint32_t)from->xattrs_len, at;
	int r;

	e->mode = (uint16_t)from->mode;
	e->uid = from->uid;
	e->gid = from->gid;
	e->mtime = clamp_time(from->mtime);
	if (len == 0)
		return 0;
	r = add_text(t, &len, sizeof len, &e->xattrs, err);
	return r ? r : add_text(t, from->xattrs, len, &at, err);
}

static int keep_link(struct tree *t, uint32_t layer, const struct tar_entry *from, bool hidden, struct entry *e, struct edera_error *err)
{
	struct place target;
	int r = locate(t, layer, from->link, &target, err);

	if (r)
		return r;
	if (!target.base || target.leftover)
		return err_set(err, -EBADMSG, "the hard link '%.100s' in a layer has the target '%.100s', which cannot be linked to", from->path, from->link);
	r = tree_child(t, target.parent, target.base, target.base_len, true, &e->target, err);
	if (!r && !hidden)
		raise_mark(&tree_node(t, e->target)->linked, layer);
	return r;
}

static const uint8_t entry_types[] = {
	[TAR_FILE] = ENTRY_FILE, [TAR_DIR] = ENTRY_DIR, [TAR_SYMLINK] = ENTRY_SYMLINK, [TAR_HARDLINK] = ENTRY_HARDLINK,
	[TAR_CHAR] = ENTRY_CHAR, [TAR_BLOCK] = ENTRY_BLOCK, [TAR_FIFO] = ENTRY_FIFO,
};

/* As the kernel writes device numbers to disks: 12 bits of major, 20 of minor. */
static uint32_t device_number(uint32_t major, uint32_t minor) { return (minor & 0xff) | major << 8 | (minor & ~0xffu) << 12; }

/* The parents of an entry are directories from here on, so an older file in their place is hidden. */
static void mark_parents(struct tree *t, uint32_t layer, uint32_t node)
{
	while (node != TREE_ROOT) {
		struct node *n = tree_node(t, node);

		if (n->hides_self >= layer + 1)
			return;
		n->hides_self = (uint16_t)(layer + 1);
		node = n->parent;
	}
}

static int add_entry(struct tree *t, uint32_t layer, const struct tar_entry *from, const struct place *w, struct entry **ret, struct edera_error *err)
{
	uint32_t node = TREE_ROOT;
	bool hidden = w->hidden;
	struct node *n;
	int r = 0;

	if (w->base)
		r = tree_child(t, w->parent, w->base, w->base_len, true, &node, err);
	else if (from->type != TAR_DIR || w->parent != TREE_ROOT)
		return err_set(err, -EBADMSG, "the name '%.200s' in a layer stands for a directory, but the entry is none", from->path);
	if (r || (r = append(t, entry_types[from->type], node, ret, err)) || (r = keep_metadata(t, from, *ret, err)))
		return r;
	n = tree_node(t, node);
	hidden |= n->hides_self > layer + 1;
	mark_parents(t, layer, w->parent);
	raise_mark(&n->hides_self, layer);
	if (from->type != TAR_DIR)
		raise_mark(&n->hides_below, layer);
	switch (from->type) {
	case TAR_FILE:
		(*ret)->data = DATA_MISSING;
		return !hidden || n->linked > layer;
	case TAR_HARDLINK:
		return keep_link(t, layer, from, hidden, *ret, err);
	case TAR_SYMLINK:
		if (!*from->link)
			return err_set(err, -EBADMSG, "the symlink '%.200s' in a layer has no target", from->path);
		return add_text(t, from->link, strlen(from->link) + 1, &(*ret)->text, err);
	case TAR_CHAR:
	case TAR_BLOCK:
		(*ret)->device = device_number(from->major, from->minor);
		return 0;
	default:
		return 0;
	}
}

void tree_begin_layer(struct tree *t, uint32_t layer) { t->first[layer] = t->entries.count; }
void tree_end_layer(struct tree *t, uint32_t layer) { t->end[layer] = t->entries.count; }

int tree_add(struct tree *t, uint32_t layer, const struct tar_entry *from, struct entry **ret, struct edera_error *err)
{
	struct place w;
	int r = locate(t, layer, from->path, &w, err);

	if (r)
		return r;
	if (w.leftover) {
		t->skipped_names++;
		return 0;
	}
	if (w.base && begins(w.base, w.base_len, WHITEOUT))
		return add_whiteout(t, layer, &w, err);
	return add_entry(t, layer, from, &w, ret, err);
}

bool tree_is_plain(const char *path)
{
	const char *name;
	size_t len;

	while (component(&path, &name, &len))
		if (begins(name, len, WHITEOUT))
			return false;
	return true;
}

int tree_repeat_layer(struct tree *t, uint32_t same_as, uint32_t layer, struct edera_error *err)
{
	tree_begin_layer(t, layer);
	for (uint32_t i = t->first[same_as]; i < t->end[same_as]; i++) {
		struct entry *from = tree_entry(t, i), *to = NULL;
		int r = append(t, (enum entry_type)from->type, from->node, &to, err);

		if (r)
			return r;
		*to = *from;
		if (to->type == ENTRY_FILE)
			to->data = DATA_MISSING;
	}
	tree_end_layer(t, layer);
	return 0;
}
