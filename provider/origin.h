/* SPDX-License-Identifier: Apache-2.0 */
/* Where an image comes from, as the command line says it:
 *   [HOST[:PORT]/]PATH[:TAG][@DIGEST]   oci:DIR[:TAG|@DIGEST]   oci-archive:FILE[:TAG]   docker-archive:FILE[:REF]
 *   archive:FILE[:REF][@DIGEST]
 * The last is either kind of archive; REF picks the image only if there are several. FILE "-" is what was handed over as a descriptor. */
#ifndef PROVIDER_ORIGIN_H
#define PROVIDER_ORIGIN_H

#include <stdbool.h>
#include "base/reference.h"
#include "digest.h"

enum origin_kind { ORIGIN_REGISTRY, ORIGIN_LAYOUT, ORIGIN_OCI_ARCHIVE, ORIGIN_DOCKER_ARCHIVE, ORIGIN_ARCHIVE };

#define ORIGIN_TAG_MAX 128
#define ORIGIN_CAP 6000   /* enough for every origin as text */

struct origin {
	enum origin_kind kind;
	struct reference image;        /* registry */
	/* The others: directory or file, and what picks the image in it; each may be "". */
	char file[4096];
	char tag[ORIGIN_TAG_MAX + 1];  /* free text in practice */
	char digest[DIGEST_MAX];
	char name[REFERENCE_CAP];      /* docker-archive, archive: the canonical reference asked for */
};

int origin_parse(const char *text, struct origin *ret, struct edera_error *);
/* A repository alone, for listing tags: no tag, no digest. */
int origin_parse_repository(const char *text, struct origin *ret, struct edera_error *);
/* FILE is "-". */
bool origin_is_stream(const struct origin *);
/* With everything spelled out. */
void origin_text(const struct origin *, char dst[ORIGIN_CAP]);

#endif
