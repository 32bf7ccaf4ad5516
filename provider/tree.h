/* SPDX-License-Identifier: Apache-2.0 */
/* What the layers of an image say, and the file system that comes of it.
 *
 * Layers are read newest first, so that content a newer layer hides need not be packed. Every tar entry is kept in a
 * journal (its metadata, 32 bytes and its name); its path, as written, becomes a node. Marks on the nodes answer whether
 * newer layers hide a file. When all layers have been read, merge_layers() replays the journal oldest first, as an
 * unpacker would on a disk: parents are resolved through symlinks, whiteouts of a layer come before its entries, hard links
 * share the inode their target has at that moment. So the tree is right by construction, and the marks only save work: a
 * file that was wrongly left out is alive with its data missing, and is read again. */
#ifndef PROVIDER_TREE_H
#define PROVIDER_TREE_H

#include <stdbool.h>
#include "table.h"
#include "tar.h"

#define TREE_DEPTH_MAX 2048  /* components of a path, and levels of directories: as many as a path of 4095 bytes has */
#define TREE_LAYERS_MAX 4096

/* Inode numbers of a node: what it is at this point of the replay. */
#define INO_NONE 0u
#define INO_IMPLICIT 1u      /* a directory that no entry describes: 0755, root */
#define INO_ENTRY 2u         /* INO_ENTRY + index of a journal entry */

enum entry_type { ENTRY_FILE, ENTRY_DIR, ENTRY_SYMLINK, ENTRY_HARDLINK, ENTRY_CHAR, ENTRY_BLOCK, ENTRY_FIFO, ENTRY_WHITEOUT, ENTRY_OPAQUE };

#define DATA_MISSING 0xffffffffu /* of a file: hidden by newer layers, not packed */
#define DATA_WANTED 0xfffffffeu  /* the same, but it turned out to be alive */

struct entry {
	uint32_t node;
	uint32_t uid, gid, mtime;
	uint32_t xattrs;    /* offset in texts of uint32 length and the attributes as struct tar_entry has them; 0: none */
	union {
		uint32_t data;   /* file: number the sink gave it, or DATA_MISSING */
		uint32_t target; /* hard link: node */
		uint32_t text;   /* symlink: offset in texts */
		uint32_t device; /* as the kernel encodes it */
	};
	uint32_t inode;     /* number in the image, of whatever is no directory; set by who writes it */
	uint16_t mode;      /* permission bits */
	uint8_t type;       /* enum entry_type */
	uint8_t unused;
};

struct node {
	uint32_t parent, hash_next;
	uint32_t name;                    /* offset in texts; NUL-terminated there */
	uint32_t child, previous, next;   /* live children, during and after the replay */
	uint32_t ino;
	union {
		uint32_t ghost;           /* during the replay: what the layer in hand has whited out here */
		uint32_t number;          /* after it: inode number of a directory */
	};
	/* Layer numbers plus one, 0 = none. */
	uint16_t hides_self, hides_below; /* newest layer that hides older files here; below here */
	uint16_t linked;                  /* newest layer with a visible hard link to this path */
	uint16_t layer, ghost_layer, mark_layer;
	uint16_t depth;
	uint8_t mark_type, name_len;
};

struct tree {
	struct table nodes, entries;
	struct table texts;               /* bytes */
	uint32_t *buckets, n_buckets;
	uint64_t seed;
	uint32_t n_layers;
	uint32_t *first, *end;            /* journal range of each layer */
	uint32_t skipped_names;           /* aufs leftovers and the like */
	uint64_t steps;                   /* of the replay, which are bounded */
};

#define TREE_ROOT 0u

static inline struct node *tree_node(const struct tree *t, uint32_t i) { return table_at(&t->nodes, i); }
static inline struct entry *tree_entry(const struct tree *t, uint32_t i) { return table_at(&t->entries, i); }
static inline const char *tree_text(const struct tree *t, uint32_t at) { return (const char *)t->texts.base + at; }
/* The journal entry a node's inode is, or NULL for none and for implicit directories. */
static inline struct entry *tree_inode(const struct tree *t, const struct node *n)
{
	return n->ino >= INO_ENTRY ? tree_entry(t, n->ino - INO_ENTRY) : NULL;
}

int tree_init(struct tree *, uint32_t n_layers, uint32_t max_entries, struct edera_error *);
void tree_free(struct tree *);
/* Layers are given newest (highest number) first: begin, entries, end. */
void tree_begin_layer(struct tree *, uint32_t layer);
/* 1: a regular file whose data is wanted: set (*ret)->data. 0: recorded, or nothing to record. */
int tree_add(struct tree *, uint32_t layer, const struct tar_entry *, struct entry **ret, struct edera_error *);
void tree_end_layer(struct tree *, uint32_t layer);
/* A layer that is there twice: `layer` (older) says what `same_as` said. */
int tree_repeat_layer(struct tree *, uint32_t same_as, uint32_t layer, struct edera_error *);
/* Whether the name of a tar entry means a thing in the image, and is not a marker or below one. */
bool tree_is_plain(const char *path);

/* For the replay. Finds the child, or makes its node; `len` up to 255. */
int tree_child(struct tree *, uint32_t parent, const char *name, size_t len, bool make, uint32_t *ret, struct edera_error *);
/* "/a/b" of a node, for messages; cut at the front if it is long. */
const char *tree_path(const struct tree *, uint32_t node, char *dst, size_t cap);

/* The whole replay: afterwards node.ino and the lists of children are the image. */
int merge_layers(struct tree *, struct edera_error *);

#endif
