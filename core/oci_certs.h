/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry's directory of certificates holds, as Docker and Podman lay it out, and how bytes go to the provider's user, who may read no
 * such file. */
#ifndef CORE_OCI_CERTS_H
#define CORE_OCI_CERTS_H

#include "base/buf.h"
#include "base/error.h"

struct oci_certs {
	int ca_fd, cert_fd, key_fd; /* sealed files in memory, or -1 */
};

/* Opens <dir>/<registry>/: every *.crt is an authority, NAME.cert with NAME.key the client's; of several pairs, the first by name.
 * It need not exist. `ret` is all -1 or as it was found. */
int oci_certs_open(const char *dir, const char *registry, struct oci_certs *ret, struct edera_error *);
void oci_certs_close(struct oci_certs *);

/* A file in memory with these bytes, read from its start, that nobody can change. `what` is for the error. */
int oci_sealed_file(const char *what, const struct buf *, int *ret_fd, struct edera_error *);

#endif
