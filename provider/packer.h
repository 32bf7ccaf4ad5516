/* SPDX-License-Identifier: Apache-2.0 */
/* mkfs.erofs, which turns the merged tar into an image. It is started before the worker's own sandbox closes and has one of its own: it may
 * read the system's libraries and the pipe the tar comes through, and write the output file. It ends with the worker, whatever ends that. */
#ifndef PROVIDER_PACKER_H
#define PROVIDER_PACKER_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct options;
struct packer;

/* Finds the program and asks for its version; then it waits for a tar. */
int packer_start(const struct options *, struct packer **ret, struct edera_error *);
/* Before the content of a file of this size is written, padding not included. */
int packer_reserve(struct packer *, uint64_t size, struct edera_error *);
int packer_write(struct packer *, const void *data, size_t n, struct edera_error *);
/* The tar is complete: waits until the image is. */
int packer_finish(struct packer *, struct edera_error *);
void packer_free(struct packer *);
/* Any thread: whoever waits for the program stops doing so. NULL is ignored. */
void packer_abort(struct packer *);

/* The child's side, PACKER_WORD being the first argument: confines itself, and becomes the program in `args`. */
#define PACKER_WORD "--become-packer"
int packer_main(char **args);

#endif
