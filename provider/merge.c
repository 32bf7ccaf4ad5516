/* SPDX-License-Identifier: Apache-2.0 */
/* The replay of the journal: layers applied oldest first to the live tree. */
#include "tree.h"

#include <string.h>

#define LINKS_MAX 40  /* symlinks followed in one path, as the kernel has it */
#define STEPS_MAX (1ull << 28) /* components walked in all: seconds; no real image comes near */

static void attach(struct tree *t, uint32_t at)
{
	struct node *n = tree_node(t, at), *parent = tree_node(t, n->parent);

	n->previous = 0;
	n->next = parent->child;
	if (parent->child)
		tree_node(t, parent->child)->previous = at;
	parent->child = at;
}

static void detach(struct tree *t, uint32_t at)
{
	struct node *n = tree_node(t, at);

	if (n->previous)
		tree_node(t, n->previous)->next = n->next;
	else
		tree_node(t, n->parent)->child = n->next;
	if (n->next)
		tree_node(t, n->next)->previous = n->previous;
}

static void set(struct tree *t, uint32_t at, uint32_t ino, uint32_t layer)
{
	struct node *n = tree_node(t, at);

	if (n->ino == INO_NONE && at != TREE_ROOT)
		attach(t, at);
	n->ino = ino;
	n->layer = (uint16_t)layer;
}

static void kill_one(struct tree *t, uint32_t at, uint32_t layer)
{
	struct node *n = tree_node(t, at);

	detach(t, at);
	/* A hard link of this layer may still mean what its own whiteout takes away: a rename. */
	n->ghost = n->ino;
	n->ghost_layer = (uint16_t)(layer + 1);
	n->ino = INO_NONE;
}

/* Everything below a directory goes; depth first, without recursion. */
static void remove_below(struct tree *t, uint32_t top, uint32_t layer)
{
	uint32_t at = top;

	while (tree_node(t, top)->child) {
		while (tree_node(t, at)->child)
			at = tree_node(t, at)->child;
		uint32_t parent = tree_node(t, at)->parent;

		kill_one(t, at, layer);
		at = parent;
	}
}

static void remove_node(struct tree *t, uint32_t at, uint32_t layer)
{
	if (tree_node(t, at)->ino == INO_NONE)
		return;
	remove_below(t, at, layer);
	kill_one(t, at, layer);
}

static bool is_dir(const struct tree *t, const struct node *n)
{
	return n->ino == INO_IMPLICIT || (n->ino >= INO_ENTRY && tree_inode(t, n)->type == ENTRY_DIR);
}

/* A path being followed: components still to go, innermost last. */
struct walk {
	struct tree *t;
	uint32_t layer;
	bool make;         /* directories that are not there are made; else the walk ends with -ENOENT */
	uint32_t at;
	unsigned links;
};

static int follow(struct walk *w, const char *target, struct edera_error *err);

static int step(struct walk *w, const char *name, size_t len, uint32_t known, struct edera_error *err)
{
	struct tree *t = w->t;
	struct node *n;
	uint32_t next = known;
	int r;

	if (t->steps++ > STEPS_MAX)
		return err_set(err, -E2BIG, "the paths and symlinks in the image take more than %llu steps to resolve", STEPS_MAX);
	if (!next) {
		r = tree_child(t, w->at, name, len, w->make, &next, err);
		if (r)
			return r;
	}
	n = tree_node(t, next);
	if (n->ino != INO_NONE && !is_dir(t, n)) {
		/* This layer puts a directory here itself, so what lies below is not meant for where a lower layer's link points. */
		bool replaced = n->mark_layer == w->layer + 1 && n->mark_type == ENTRY_DIR && n->layer != w->layer;

		if (tree_inode(t, n)->type == ENTRY_SYMLINK && !replaced)
			return follow(w, tree_text(t, tree_inode(t, n)->text), err);
		if (!w->make)
			return -ENOENT;
		remove_node(t, next, w->layer);
	}
	if (n->ino == INO_NONE) {
		if (!w->make)
			return -ENOENT;
		if (tree_node(t, w->at)->depth >= TREE_DEPTH_MAX)
			return err_set(err, -ENAMETOOLONG, "the image has directories deeper than %d levels", TREE_DEPTH_MAX);
		set(t, next, INO_IMPLICIT, w->layer);
	}
	w->at = next;
	return 0;
}

/* Walks a link's target from the directory the link is in; ".." stops at the root. */
static int follow(struct walk *w, const char *target, struct edera_error *err)
{
	const char *p = target;

	if (++w->links > LINKS_MAX)
		return err_set(err, -ELOOP, "a path in a layer leads through more than %d symlinks (one of them to '%.100s')", LINKS_MAX, target);
	if (*p == '/')
		w->at = TREE_ROOT;
	for (;;) {
		size_t len;
		int r;

		p += strspn(p, "/");
		len = strcspn(p, "/");
		if (len == 0)
			return 0;
		if (len == 2 && memcmp(p, "..", 2) == 0)
			w->at = tree_node(w->t, w->at)->parent;
		else if (!(len == 1 && *p == '.')) {
			r = step(w, p, len, 0, err);
			if (r)
				return r;
		}
		p += len;
	}
}

/* The live directory that a path's parent, as written, stands for. */
static int resolve(struct tree *t, uint32_t layer, uint32_t dir, bool make, uint32_t *ret, struct edera_error *err)
{
	struct walk w = { .t = t, .layer = layer, .make = make, .at = TREE_ROOT };
	uint32_t path[TREE_DEPTH_MAX + 1], n = 0;

	for (uint32_t at = dir; at != TREE_ROOT; at = tree_node(t, at)->parent)
		path[n++] = at;
	while (n-- > 0) {
		struct node *c = tree_node(t, path[n]);
		int r = step(&w, tree_text(t, c->name), c->name_len, w.at == c->parent ? path[n] : 0, err);

		if (r)
			return r;
	}
	*ret = w.at;
	return 0;
}

/* The live node for a path as written; its last component is never followed. */
static int resolve_node(struct tree *t, uint32_t layer, uint32_t node, bool make, uint32_t *ret, struct edera_error *err)
{
	struct node *n = tree_node(t, node);
	uint32_t dir;
	int r;

	if (node == TREE_ROOT) {
		*ret = TREE_ROOT;
		return 0;
	}
	r = resolve(t, layer, n->parent, make, &dir, err);
	if (r)
		return r;
	if (dir == n->parent) {
		*ret = node;
		return 0;
	}
	return tree_child(t, dir, tree_text(t, n->name), n->name_len, make, ret, err);
}

static int apply_whiteout(struct tree *t, uint32_t layer, const struct entry *e, struct edera_error *err)
{
	uint32_t at;
	int r;

	if (e->type == ENTRY_OPAQUE) {
		r = e->node == TREE_ROOT ? (at = TREE_ROOT, 0) : resolve(t, layer, e->node, false, &at, err);
		if (!r)
			remove_below(t, at, layer);
	} else {
		r = resolve_node(t, layer, e->node, false, &at, err);
		if (!r && at != TREE_ROOT)
			remove_node(t, at, layer);
	}
	return r == -ENOENT ? 0 : r; /* what never was need not be deleted */
}

static int link_target(struct tree *t, uint32_t layer, const struct entry *e, uint32_t *ret_ino, struct edera_error *err)
{
	char a[200], b[200];
	struct node *n;
	uint32_t at;
	int r = resolve_node(t, layer, e->target, false, &at, err);

	if (r == -ENOENT)
		at = e->target; /* its directory may have been whited out with it */
	else if (r)
		return r;
	n = tree_node(t, at);
	if (n->ino == INO_NONE && n->ghost_layer == layer + 1)
		*ret_ino = n->ghost;
	else
		*ret_ino = n->ino;
	if (*ret_ino == INO_NONE)
		return err_set(err, -EBADMSG, "the hard link '%s' in a layer links to '%s', which is not there", tree_path(t, e->node, a, sizeof a),
			       tree_path(t, e->target, b, sizeof b));
	if (*ret_ino == INO_IMPLICIT || tree_entry(t, *ret_ino - INO_ENTRY)->type == ENTRY_DIR)
		return err_set(err, -EBADMSG, "the hard link '%s' in a layer links to '%s', which is a directory", tree_path(t, e->node, a, sizeof a),
			       tree_path(t, e->target, b, sizeof b));
	return 0;
}

static int apply_entry(struct tree *t, uint32_t layer, uint32_t index, struct edera_error *err)
{
	struct entry *e = tree_entry(t, index);
	uint32_t at, ino = INO_ENTRY + index;
	struct node *n;
	int r;

	if (e->type == ENTRY_HARDLINK && (r = link_target(t, layer, e, &ino, err)))
		return r;
	r = resolve_node(t, layer, e->node, true, &at, err);
	if (r)
		return r;
	n = tree_node(t, at);
	if (n->depth > TREE_DEPTH_MAX)
		return err_set(err, -ENAMETOOLONG, "the image has directories deeper than %d levels", TREE_DEPTH_MAX);
	if (n->ino != INO_NONE && is_dir(t, n) && e->type != ENTRY_DIR)
		remove_below(t, at, layer);
	set(t, at, ino, layer);
	return 0;
}

static int apply_layer(struct tree *t, uint32_t layer, struct edera_error *err)
{
	int r;

	for (uint32_t i = t->first[layer]; i < t->end[layer]; i++) {
		struct entry *e = tree_entry(t, i);
		struct node *n = tree_node(t, e->node);

		if (e->type == ENTRY_WHITEOUT || e->type == ENTRY_OPAQUE)
			continue;
		n->mark_layer = (uint16_t)(layer + 1);
		n->mark_type = e->type;
	}
	for (uint32_t i = t->first[layer]; i < t->end[layer]; i++) {
		struct entry *e = tree_entry(t, i);

		if (e->type != ENTRY_WHITEOUT && e->type != ENTRY_OPAQUE)
			continue;
		r = apply_whiteout(t, layer, e, err);
		if (r)
			return r;
	}
	for (uint32_t i = t->first[layer]; i < t->end[layer]; i++) {
		struct entry *e = tree_entry(t, i);

		if (e->type == ENTRY_WHITEOUT || e->type == ENTRY_OPAQUE)
			continue;
		r = apply_entry(t, layer, i, err);
		if (r)
			return r;
	}
	return 0;
}

int merge_layers(struct tree *t, struct edera_error *err)
{
	set(t, TREE_ROOT, INO_IMPLICIT, 0);
	for (uint32_t layer = 0; layer < t->n_layers; layer++) {
		int r = apply_layer(t, layer, err);

		if (r)
			return r;
	}
	return 0;
}
