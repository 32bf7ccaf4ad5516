/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials for one registry, out of files in the form of Docker's config.json and the credential helpers they name: of all that is
 * known, only what concerns that registry. */
#ifndef BASE_OCI_AUTH_H
#define BASE_OCI_AUTH_H

#include <stdbool.h>
#include "base/buf.h"
#include "base/error.h"

struct oci_auth_request {
	const char *registry;    /* "docker.io", "localhost:5000" */
	const char *mirror;      /* registry asked instead of Docker Hub; "" or NULL: none */
	const char *call_json;   /* the caller's auth.json, which wins over the file; NULL: none */
	const char *file;        /* the node's auth.json; it need not exist */
	bool helpers;            /* run the credential helpers that the file names */
	const char *helper_dir;  /* where they are looked for besides /usr/local/bin, /usr/bin and the like; NULL: nowhere */
	const char *helper_path; /* where they are looked for instead, absolute directories joined by ':' as in PATH; NULL: see above */
	const char *const *helper_env; /* their environment; NULL: a minimal one */
};

/* Appends {"auths":{...}} to ret, or nothing if there are no credentials for that registry. */
int oci_auth_collect(const struct oci_auth_request *, struct buf *ret, struct edera_error *);

#endif
