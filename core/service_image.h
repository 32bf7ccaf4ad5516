/* SPDX-License-Identifier: Apache-2.0 */
/* What listing images and pruning them share. */
#ifndef CORE_SERVICE_IMAGE_H
#define CORE_SERVICE_IMAGE_H

#include "service_job.h"

uint32_t service_image_format(const char *name); /* 0 for none */
/* The work of a job: its reply becomes edera.node.v1's list of images. On the loop, who uses them is added. */
void service_image_list_work(void *job, const struct edera_call *);
void service_image_mark_used(struct daemon *, Edera__Node__V1__ListImagesReply *);

#endif
