/* SPDX-License-Identifier: Apache-2.0 */
/* Which image of a layout's index.json is meant, and what the images in it are called. */
#ifndef PROVIDER_LAYOUT_INDEX_H
#define PROVIDER_LAYOUT_INDEX_H

#include "json.h"
#include "manifest.h"
#include "origin.h"

#define LAYOUT_NAMES_MAX 64

/* By the origin's tag or name, or the only one there is. `where` is for messages. */
int layout_index_choose(json_object *index, const struct origin *, const char *where, char ret[DIGEST_MAX], struct edera_error *);
/* The full names, in canonical form, that the index has for what has this digest, are added to `names`. */
void layout_index_names(json_object *index, const char *digest, json_object *names);
/* Adds what is a reference, unless it is there already. */
void layout_name_add(json_object *names, const char *name);

#endif
