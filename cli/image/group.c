/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"
#include "cli/image/image.h"

static const struct command *const verbs[] = { &image_pull, &image_list, &image_remove, &image_prune, &image_list_kernel_variants, NULL };

const struct command image_group = { .name = "image", .summary = "Images: what zones boot and workloads run", .sub = verbs };
