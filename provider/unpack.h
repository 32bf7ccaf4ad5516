/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the unpackers: the input in hand, and the room for output. */
#ifndef PROVIDER_UNPACK_H
#define PROVIDER_UNPACK_H

#include <stdbool.h>
#include "inflate.h"

struct unpack {
	const struct inflate_io *io;
	const uint8_t *in;
	size_t in_left;
	bool in_ended;
	uint8_t *out;
	size_t out_size, out_used;
};

/* Makes sure that there is input or that it has ended. */
int unpack_input(struct unpack *, struct edera_error *);
/* Makes sure that there is room. */
int unpack_room(struct unpack *, struct edera_error *);

/* After the end of a piece of compressed data: 1 if another that begins with this byte follows, 0 if nothing but zeros does. */
int unpack_again(struct unpack *, uint8_t begins, const char *format, struct edera_error *);

int gunzip(struct unpack *, struct edera_error *);
int bunzip2(struct unpack *, struct edera_error *);
int unxz(struct unpack *, struct edera_error *);

#endif
