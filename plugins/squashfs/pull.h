/* SPDX-License-Identifier: Apache-2.0 */
/* A pull in flight, which callers that want the same image share. */
#ifndef SQUASHFS_PULL_H
#define SQUASHFS_PULL_H

#include "layers.h"

struct pull {
	struct pull *next;
	char name[REFERENCE_CAP]; /* what the provider is asked for */
	uint32_t format, flags;
	unsigned users;           /* threads that hold it; the last one frees it */
	bool done;
	int result;
	struct edera_error error;
	char digest[EDERA_DIGEST_MAX];
	/* The last progress, for those who wait. */
	unsigned version;
	struct edera_pull_progress progress;
	struct edera_pull_layer *layers;
};

/* What one run of the provider said. */
struct outcome {
	bool there, cached;
	char digest[EDERA_DIGEST_MAX], source_digest[EDERA_DIGEST_MAX];
	struct buf manifest, config;
};

struct edera_pull_line {
	const struct edera_pull *asked;
	struct store *store;
	struct pull *shared;
	struct outcome outcome;
	struct keeping keeping;
};

void pull_line(void *user, const char *json, size_t len);
void outcome_free(struct outcome *);
/* Tells a caller how the pull stands. */
void pull_report(const struct edera_pull *asked, const struct edera_pull_progress *);

#endif
