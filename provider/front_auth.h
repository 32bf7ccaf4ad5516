/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of whoever runs the program: the file named, or the one docker and podman use, and credential helpers. */
#ifndef PROVIDER_FRONT_AUTH_H
#define PROVIDER_FRONT_AUTH_H

#include "base/buf.h"
#include "options.h"

/* An auth.json with what concerns the image named, or an empty buffer. */
int front_credentials(const struct options *, struct buf *ret, struct edera_error *);

#endif
