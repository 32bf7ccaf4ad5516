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
	struct json_object *names; /* what an archive calls it: an array, or NULL */
};

struct edera_pull_line {
	const struct edera_pull *asked;
	struct store *store;
	struct pull *shared;
	struct outcome outcome;
	struct keeping keeping;
	/* Of an import. */
	bool import;
	int archive_fd;
	const char *expected;      /* digest, or "" */
};

/* One run of the provider; what it made becomes an entry, and its digest goes to l->shared->digest. */
int pull_run(struct edera_pull_line *, const struct edera_call *, struct edera_error *);
void pull_line(void *user, const char *json, size_t len);
void outcome_free(struct outcome *);
/* Tells a caller how the pull stands. */
void pull_report(const struct edera_pull *asked, const struct edera_pull_progress *);

/* Whether images of this format are packed here. */
int pull_check_format(uint32_t format, struct edera_error *);
/* The entry with that digest, or whose source has it. */
bool pull_find(const struct store *, const char *digest, uint32_t format, char ret[EDERA_DIGEST_MAX]);

#endif
