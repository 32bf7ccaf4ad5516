/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_IMAGE_H
#define CLI_IMAGE_H

#include "cli/cli.h"
#include "cli/progress.h"

extern const struct command verb_image_pull, verb_image_import, verb_image_list, verb_image_remove, verb_image_prune, verb_image_list_kernel_variants;

/* view.c: an edera.node.v1 Image as a row */
extern const struct list_view image_view;
void image_age(struct buf *, int64_t seconds);   /* "3 hours" */
Protect__Control__V1__OciImageFormat image_format(const char *name); /* "squashfs"; UNKNOWN for what is none */
int image_collect(struct cli *, Edera__Node__V1__ListImagesReply **ret, struct list *, struct edera_error *);
#define IMAGE_DIGITS_MIN 6 /* of a digest; fewer are too easily another image's */
bool image_is(const Edera__Node__V1__Image *, const char *wanted); /* by a name, or a digest or its beginning, with or without the algorithm */

/* pull.c: what pull and import have in common */
extern const char *const image_formats[], *const image_progress_modes[];
enum progress_mode image_progress_mode(const char *name);
/* The last JSON line; name may be NULL. */
void image_print_result(const Protect__Control__V1__OciImageSpec *, const char *name);

#endif
