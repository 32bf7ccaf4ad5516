/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"
#include "cli/image/image.h"

static const struct command *const verbs[] = { &verb_image_pull, &verb_image_import, &verb_image_list, &verb_image_remove, &verb_image_prune, &verb_image_list_kernel_variants, NULL };

const struct command image_group = { .name = "image", .summary = "Images: what zones boot and workloads run", .sub = verbs };
