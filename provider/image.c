/* SPDX-License-Identifier: Apache-2.0 */
#include "pull.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_DEPTH_MAX 4

void image_free(struct image *i)
{
	config_free(&i->config);
	manifest_free(&i->manifest);
	buf_free(&i->manifest_text);
	buf_free(&i->config_text);
	if (i->source)
		i->source->ops->free(i->source);
	i->source = NULL;
}

/* From what the reference names down to an image manifest, through indexes. */
static int find_manifest(struct image *i, const struct platform *platform, struct edera_error *err)
{
	char name[ORIGIN_CAP], digest[DIGEST_MAX];
	int r;

	origin_text(&i->ref, name);
	r = i->source->ops->manifest(i->source, NULL, &i->manifest_text, i->digest, err);
	for (int depth = 0; !r; depth++) {
		_json_ json_object *root = NULL;
		enum manifest_kind kind;
		struct descriptor d;

		r = json_read(i->manifest_text.data, i->manifest_text.len, &root, err);
		if (!r)
			r = manifest_kind(root, &kind, err);
		if (r)
			return err_wrap(err, "the manifest of %.300s (%s)", name, i->digest);
		if (kind == MANIFEST_IMAGE) {
			r = manifest_parse(root, &i->manifest, err);
			if (!r)
				root = NULL;
			return r ? err_wrap(err, "the manifest of %.300s (%s)", name, i->digest) : 0;
		}
		if (depth == INDEX_DEPTH_MAX)
			return err_set(err, -ELOOP, "%.300s is an index of indexes deeper than %d levels", name, INDEX_DEPTH_MAX);
		if (depth == 0)
			strcpy(i->source_digest, i->digest);
		r = index_choose(root, platform, &d, err);
		if (r)
			return err_wrap(err, "%.300s", name);
		strcpy(digest, d.digest);
		buf_free(&i->manifest_text);
		r = i->source->ops->manifest(i->source, digest, &i->manifest_text, i->digest, err);
	}
	return r;
}

static int find_config(struct image *i, const struct platform *platform, struct edera_error *err)
{
	char name[ORIGIN_CAP], a[96], b[96];
	int r = i->source->ops->blob(i->source, &i->manifest.config, &i->config_text, err);

	if (!r)
		r = config_parse(i->config_text.data, i->config_text.len, &i->config, err);
	if (r)
		return r;
	origin_text(&i->ref, name);
	if (i->config.has_platform && !platform_rank(platform, &i->config.platform))
		return err_set(err, -ENOENT, "%.300s is an image for %s, not for %s", name, platform_text(&i->config.platform, a), platform_text(platform, b));
	if (i->config.n_diff_ids != i->manifest.n_layers)
		return err_set(err, -EBADMSG, "%.300s: the config lists %u layers, the manifest %u", name, i->config.n_diff_ids, i->manifest.n_layers);
	return 0;
}

int image_resolve(struct image *i, const struct options *o, struct progress *p, struct edera_error *err)
{
	int r = origin_parse(o->reference, &i->ref, err);

	if (r)
		return r;
	progress_phase(p, PHASE_RESOLVING);
	r = source_new(&i->ref, o, &i->source, err);
	if (!r)
		r = find_manifest(i, &o->platform, err);
	if (r)
		return r;
	progress_phase(p, PHASE_RESOLVED);
	progress_phase(p, PHASE_CONFIG);
	return find_config(i, &o->platform, err);
}
