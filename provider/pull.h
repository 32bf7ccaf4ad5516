/* SPDX-License-Identifier: Apache-2.0 */
/* One image from its source to its sink. */
#ifndef PROVIDER_PULL_H
#define PROVIDER_PULL_H

#include "progress.h"
#include "sink.h"

/* What a reference turned out to be. */
struct image {
	struct origin ref;
	struct source *source;
	struct manifest manifest;
	struct image_config config;
	struct buf manifest_text, config_text;
	char digest[DIGEST_MAX];         /* of the platform's manifest */
	char source_digest[DIGEST_MAX];  /* what the reference named, or "" if that is the manifest */
};

struct pull {
	const struct options *options;
	struct progress progress;
	struct image image;
	struct tree tree;
	struct sink *sink;
	bool cached;                     /* the image is one of options->have: nothing was done */
	uint64_t unpacked;               /* bytes of all layers so far */
	/* The first thing that went wrong, on whatever thread. */
	pthread_mutex_t lock;
	struct edera_error error;
	struct stream *stream;           /* to be stopped then */
};

/* Resolves to the platform's image: manifest and config are read and checked. */
int image_resolve(struct image *, const struct options *, struct progress *, struct edera_error *);
void image_free(struct image *);

/* The whole pull; the result is in `p->image` and the output. */
int pull_run(struct pull *, const struct options *, struct edera_error *);
void pull_free(struct pull *);
/* Any thread: the pull has failed. The first error counts. */
void pull_fail(struct pull *, const struct edera_error *);

/* Streams these layers (in this order) from the source through hash and unpacker to the tree and the sink. With `again`, only
 * file content that is alive and missing is taken. */
int stream_layers(struct pull *, const uint32_t *order, uint32_t n, bool again, struct edera_error *);
void stream_stop(struct stream *);

#endif
