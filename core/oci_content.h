/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs for a running provider: first those of the plugin that runs it, then those of the machine. */
#ifndef CORE_OCI_CONTENT_H
#define CORE_OCI_CONTENT_H

#include "base/content.h"
#include "conf/conf.h"

struct oci_content {
	struct content server;
	const struct conf *conf;
	const struct edera_oci_run *asked;
};

/* *ret_fd is the provider's end of the socket, for the caller to hand over and to close. */
int oci_content_open(struct oci_content *, const struct conf *, const struct edera_oci_run *, int *ret_fd, struct edera_error *);
/* When the socket is readable. 1: wait for more; 0: it is over. */
int oci_content_serve(struct oci_content *);
void oci_content_close(struct oci_content *);

#endif
