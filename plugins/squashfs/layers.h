/* SPDX-License-Identifier: Apache-2.0 */
/* Layers as they were fetched, kept so that another image that shares them need not fetch them again.
 *
 *   images/<entry>/layers/sha256-<hex>   the layers an image was made of, while it is being made below images/.work
 *   layers/sha256-<hex>                  the same files, to be found by name
 *
 * These are hard links, and the file system counts them: a layer that has no name but the one below layers/ belongs to no image
 * any more and goes. So nothing remembers who uses what, and whatever a crash leaves is seen at the next start. */
#ifndef SQUASHFS_LAYERS_H
#define SQUASHFS_LAYERS_H

#include "store.h"

/* What one pull keeps. */
struct keeping {
	struct store *store;
	char dir[PATH_CAP]; /* "layers" of the entry that is being made; "": nothing is kept, nor given */
	unsigned files;     /* that were asked for */
};

/* Makes the directories and clears what a crash left. The store keeps layers only if its file system can; the log says so. */
int layers_open(struct store *, bool keep, struct edera_error *);
/* For the entry that is made in this directory. */
int keeping_begin(struct keeping *, struct store *, const char *entry, struct edera_error *);
/* The entry is about to get its name: its layers get theirs. */
void keeping_publish(struct keeping *);

/* See struct edera_oci_run. */
int keeping_open(struct keeping *, const char *digest, int *ret_fd);
int keeping_new(struct keeping *, const char *digest, uint64_t size, int *ret_fd);
void keeping_kept(struct keeping *, const char *digest);
void keeping_bad(struct keeping *, const char *digest);

/* What an entry keeps, on disk; of a layer that several keep, its part. */
uint64_t layers_bytes(const char *entry);
/* Removes layers that no image has any more. */
void layers_sweep(struct store *);
/* Removes all layers of all images; true if there was one. */
bool layers_drop(struct store *);

#endif
