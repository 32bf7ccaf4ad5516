/* SPDX-License-Identifier: Apache-2.0 */
/* Image references, by Docker's grammar and defaults: "nginx" is docker.io/library/nginx:latest. */
#ifndef BASE_REFERENCE_H
#define BASE_REFERENCE_H

#include <edera/image_store.h>
#include <stdbool.h>
#include "base/error.h"

struct reference {
	char registry[256];   /* host[:port] as written; "docker.io" where none was */
	char repository[256]; /* "library/nginx" */
	char tag[129];        /* "" if there is a digest and no tag; "latest" if there is neither */
	char digest[EDERA_DIGEST_MAX]; /* "" if none */
};

#define REFERENCE_CAP 800 /* enough for every canonical reference */

int reference_parse(const char *text, struct reference *ret, struct edera_error *);
/* Like reference_parse, for a repository without tag and digest (what tags are listed of). */
int reference_parse_repository(const char *text, struct reference *ret, struct edera_error *);
/* "containerd:REF" stands for REF as containerd on this node knows it: takes the prefix off, true if there was one. */
bool reference_from_containerd(const char **text);
/* "registry/repository[:tag][@digest]" */
void reference_format(const struct reference *, char dst[REFERENCE_CAP]);

#endif
