/* SPDX-License-Identifier: Apache-2.0 */
/* containerd on this node as a source of images: its content store, from which blobs are handed to the provider as descriptors, and its
 * image service, which knows what a name stands for. Nothing of an image is parsed here. */
#ifndef CORE_CONTAINERD_H
#define CORE_CONTAINERD_H

#include "base/reference.h"
#include "conf/conf.h"

/* The blob of that digest, for reading; size 0: not known. What is there may still be wrong: whoever reads it computes the digest.
 * -ENOENT: not there, not a regular file of that size, cannot be opened, or no containerd. */
int containerd_blob_open(const struct conf *, const char *digest, uint64_t size, int *ret_fd);
/* What containerd has under that name (canonical, without a digest), in the first namespace that knows it. Blocks for a few seconds at most.
 * -ENOENT: no namespace knows it; else containerd could not be asked, or gave no answer that makes sense. */
int containerd_resolve(const struct conf *, const char *name, char ret_digest[EDERA_DIGEST_MAX], struct edera_error *);

#endif
