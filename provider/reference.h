/* SPDX-License-Identifier: Apache-2.0 */
/* Image references, as Docker parses them, and the other places an image can come from:
 *   [HOST[:PORT]/]PATH[:TAG][@DIGEST]   oci:DIR[:TAG|@DIGEST]   oci-archive:FILE[:TAG]   docker-archive:FILE[:REF] */
#ifndef PROVIDER_REFERENCE_H
#define PROVIDER_REFERENCE_H

#include "digest.h"

enum reference_kind { REFERENCE_REGISTRY, REFERENCE_LAYOUT, REFERENCE_OCI_ARCHIVE, REFERENCE_DOCKER_ARCHIVE };

#define REFERENCE_HOST_MAX 272
#define REFERENCE_PATH_MAX 255
#define REFERENCE_TAG_MAX 128

struct reference {
	enum reference_kind kind;
	char host[REFERENCE_HOST_MAX + 1]; /* registry: as people write it: "docker.io" */
	char path[REFERENCE_PATH_MAX + 1]; /* "library/ubuntu" */
	char tag[REFERENCE_TAG_MAX + 1];   /* "" if a digest is given alone */
	char digest[DIGEST_MAX];           /* "" if none is given */
	char file[4096];                   /* directory or archive; then tag or `name` picks the image */
	char name[1024];                   /* docker-archive: the reference asked for, or "" */
};

int reference_parse(const char *text, struct reference *ret, struct edera_error *);
/* A repository alone, for listing tags: no tag, no digest. */
int reference_parse_repository(const char *text, struct reference *ret, struct edera_error *);
/* Canonical form: host, path, tag and digest spelled out. */
void reference_text(const struct reference *, char dst[4700]);
/* Where the registry of `host` answers: docker.io is served by registry-1.docker.io. */
const char *reference_api_host(const char *host);

#endif
