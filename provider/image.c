/* SPDX-License-Identifier: Apache-2.0 */
#include "pull.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_DEPTH_MAX 4
#define INDEX_TRIES_MAX 32 /* entries that say nothing about their platform, looked at in all */

struct search {
	struct image *image;
	const struct platform *platform;
	struct progress *progress;
	char name[ORIGIN_CAP];
	unsigned tries;
	bool mismatch; /* the error is only that it is for another platform, or no image at all */
};

static void forget(struct image *i)
{
	config_free(&i->config);
	manifest_free(&i->manifest);
	buf_free(&i->manifest_text);
	buf_free(&i->config_text);
}

void image_free(struct image *i)
{
	forget(i);
	if (i->source)
		i->source->ops->free(i->source);
	i->source = NULL;
}

/* A config that names no variant fits all of them. */
static bool fits(const struct platform *want, const struct image_config *c)
{
	struct platform have = c->platform;

	if (c->any_variant)
		strcpy(have.variant, want->variant);
	return !c->has_platform || platform_rank(want, &have);
}

static int find_config(struct search *s, struct edera_error *err)
{
	struct image *i = s->image;
	char a[96], b[96];
	int r;

	progress_phase(s->progress, PHASE_RESOLVED);
	progress_phase(s->progress, PHASE_CONFIG);
	r = i->source->ops->blob(i->source, &i->manifest.config, &i->config_text, err);
	if (r)
		return r;
	if (i->config_text.len != i->manifest.config.size)
		return err_set(err, -EBADMSG, "%.300s: the image's config %s has %zu bytes, not the %llu its descriptor says", s->name, i->manifest.config.digest,
			       i->config_text.len, (unsigned long long)i->manifest.config.size);
	r = config_parse(i->config_text.data, i->config_text.len, &i->config, err);
	if (r)
		return err_wrap(err, "%.300s: the image's config %s", s->name, i->manifest.config.digest);
	if (!fits(s->platform, &i->config)) {
		s->mismatch = true;
		return err_set(err, -ENOENT, "%.300s (%s) is an image for %s, not for %s", s->name, i->digest, platform_text(&i->config.platform, a),
			       platform_text(s->platform, b));
	}
	if (i->config.n_diff_ids != i->manifest.n_layers)
		return err_set(err, -EBADMSG, "%.300s: the config %s lists %u layers, the manifest %s %u", s->name, i->manifest.config.digest, i->config.n_diff_ids,
			       i->digest, i->manifest.n_layers);
	return 0;
}

static int descend(struct search *s, int depth, struct edera_error *err);

/* The entries of an index that may be it: the best one for the platform, or one after the other of those that name none. */
static int try_entries(struct search *s, json_object *index, int depth, struct edera_error *err)
{
	struct image *i = s->image;
	char digest[DIGEST_MAX];
	struct descriptor d;
	bool certain;

	if (depth == INDEX_DEPTH_MAX)
		return err_set(err, -ELOOP, "%.300s is an index of indexes deeper than %d levels", s->name, INDEX_DEPTH_MAX);
	for (unsigned n = 0;; n++) {
		struct edera_error none = EDERA_ERROR_INIT;
		int r = index_choose(index, s->platform, n, &d, &certain, &none);

		if (r && n > 0) /* what was wrong with the last one says more */
			return err->code;
		if (r) {
			s->mismatch = r == -ENOENT;
			return err_set(err, r, "%.300s (%s): %s", s->name, i->digest, none.msg);
		}
		if (s->tries++ == INDEX_TRIES_MAX)
			return err_set(err, -E2BIG, "%.300s: more than %d entries of indexes name no platform", s->name, INDEX_TRIES_MAX);
		strcpy(digest, d.digest);
		forget(i);
		s->mismatch = false;
		r = i->source->ops->manifest(i->source, digest, &i->manifest_text, i->digest, err);
		if (!r)
			r = descend(s, depth + 1, err);
		if (!r || certain || !s->mismatch)
			return r;
	}
}

/* From what has been read, a manifest or an index, down to the image that is for the platform. */
static int descend(struct search *s, int depth, struct edera_error *err)
{
	struct image *i = s->image;
	_json_ json_object *root = NULL;
	enum manifest_kind kind;
	int r = json_read(i->manifest_text.data, i->manifest_text.len, &root, err);

	if (!r)
		r = manifest_kind(root, &kind, err);
	if (!r && kind == MANIFEST_IMAGE)
		r = manifest_parse(root, &i->manifest, err);
	if (r) {
		s->mismatch = r == -ENOTSUP;
		return err_wrap(err, "the manifest of %.300s (%s)", s->name, i->digest);
	}
	if (kind == MANIFEST_INDEX)
		return try_entries(s, root, depth, err);
	root = NULL; /* the manifest's now */
	return find_config(s, err);
}

int image_resolve(struct image *i, const struct options *o, struct progress *p, struct edera_error *err)
{
	struct search s = { .image = i, .platform = &o->platform, .progress = p };
	int r = origin_parse(o->reference, &i->ref, err);

	if (r)
		return r;
	progress_phase(p, PHASE_RESOLVING);
	origin_text(&i->ref, s.name);
	r = source_new(&i->ref, o, &i->source, err);
	if (!r)
		r = i->source->ops->manifest(i->source, NULL, &i->manifest_text, i->digest, err);
	if (r)
		return r;
	strcpy(i->source_digest, i->digest);
	r = descend(&s, 0, err);
	if (!strcmp(i->source_digest, i->digest)) /* it named the image itself */
		i->source_digest[0] = 0;
	return r;
}
