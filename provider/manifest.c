/* SPDX-License-Identifier: Apache-2.0 */
#include "manifest.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int descriptor_parse(json_object *o, struct descriptor *ret, struct edera_error *err)
{
	const char *digest = json_text(o, "digest"), *type = json_text(o, "mediaType");
	int64_t size = json_number(o, "size", -1);
	json_object *urls = json_member(o, "urls", json_type_array);

	if (!digest || size < 0)
		return err_set(err, -EBADMSG, "a descriptor has no digest or no size");
	if (digest_check(digest, err))
		return -EBADMSG;
	*ret = (struct descriptor){ .size = (uint64_t)size };
	snprintf(ret->digest, sizeof ret->digest, "%s", digest);
	snprintf(ret->media_type, sizeof ret->media_type, "%s", type ? type : "");
	for (size_t i = 0; urls && i < json_object_array_length(urls) && i < MANIFEST_URLS_MAX; i++)
		ret->urls[i] = json_object_get_string(json_object_array_get_idx(urls, i));
	return 0;
}

int manifest_kind(json_object *root, enum manifest_kind *ret, struct edera_error *err)
{
	const char *type = json_text(root, "mediaType");
	json_object *layers = json_member(root, "layers", json_type_array), *manifests = json_member(root, "manifests", json_type_array);
	json_object *config = json_member(root, "config", json_type_object);
	int64_t version = json_number(root, "schemaVersion", 0);

	if (!json_object_is_type(root, json_type_object))
		return err_set(err, -EBADMSG, "it is not a manifest");
	if (version == 1 || json_member(root, "fsLayers", json_type_array))
		return err_set(err, -ENOTSUP, "it is a manifest of Docker's schema 1, which is long obsolete; push the image again with a current tool");
	if (version != 2)
		return err_set(err, -EBADMSG, "it is not a manifest: its schemaVersion is not 2");
	if ((layers || config) && manifests)
		return err_set(err, -EBADMSG, "it is both an image manifest and an index, which is refused");
	if (manifests) {
		if (type && strcmp(type, "application/vnd.oci.image.index.v1+json") && strcmp(type, "application/vnd.docker.distribution.manifest.list.v2+json"))
			return err_set(err, -EBADMSG, "it looks like an index but calls itself '%.100s'", type);
		*ret = MANIFEST_INDEX;
		return 0;
	}
	if (!layers || !config)
		return err_set(err, -EBADMSG, "it is neither an image manifest nor an index%s%.100s", type ? ": " : "", type ? type : "");
	if (type && strcmp(type, "application/vnd.oci.image.manifest.v1+json") && strcmp(type, "application/vnd.docker.distribution.manifest.v2+json"))
		return err_set(err, -EBADMSG, "it looks like an image manifest but calls itself '%.100s'", type);
	*ret = MANIFEST_IMAGE;
	return 0;
}

/* Tar layers of all kinds; how they are compressed, their first bytes say. */
static bool layer_type_known(const char *type)
{
	static const char *const oci = "application/vnd.oci.image.layer.";
	static const char *const docker[] = {
		"application/vnd.docker.image.rootfs.diff.tar", "application/vnd.docker.image.rootfs.foreign.diff.tar", "application/vnd.docker.image.rootfs.diff.tar.gzip",
		"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "application/vnd.docker.image.rootfs.diff.tar.zstd",
		"application/vnd.docker.image.rootfs.foreign.diff.tar.zstd", "application/vnd.docker.container.image.rootfs.diff+x-gtar",
	};
	static const char *const suffixes[] = { "", "+gzip", "+zstd", "+bzip2", "+xz" };

	if (!type[0])
		return true;
	for (size_t i = 0; i < sizeof docker / sizeof *docker; i++)
		if (!strcmp(type, docker[i]))
			return true;
	if (!text_starts(type, oci))
		return false;
	type += strlen(oci);
	if (text_starts(type, "nondistributable."))
		type += strlen("nondistributable.");
	if (!text_starts(type, "v1.tar"))
		return false;
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
		if (!strcmp(type + strlen("v1.tar"), suffixes[i]))
			return true;
	return false;
}

static bool config_type_known(const char *type)
{
	return !type[0] || !strcmp(type, "application/vnd.oci.image.config.v1+json") || !strcmp(type, "application/vnd.docker.container.image.v1+json") ||
	       !strcmp(type, "application/octet-stream");
}

int manifest_parse(json_object *root, struct manifest *ret, struct edera_error *err)
{
	json_object *layers = json_member(root, "layers", json_type_array);
	struct manifest m = { .root = root };
	size_t n = json_object_array_length(layers);
	int r = descriptor_parse(json_member(root, "config", json_type_object), &m.config, err);

	if (r)
		return err_wrap(err, "the manifest's config");
	if (!config_type_known(m.config.media_type))
		return err_set(err, -ENOTSUP, "it is not a container image but an artifact of the type '%.120s'", m.config.media_type);
	if (m.config.size > CONFIG_MAX)
		return err_set(err, -E2BIG, "the image's config of %llu bytes is larger than the %u allowed", (unsigned long long)m.config.size, CONFIG_MAX);
	if (n > MANIFEST_LAYERS_MAX)
		return err_set(err, -E2BIG, "the image has %zu layers, more than the %d allowed", n, MANIFEST_LAYERS_MAX);
	m.layers = calloc(n + 1, sizeof *m.layers);
	if (!m.layers)
		return err_errno(err, -ENOMEM, "cannot read a manifest");
	m.n_layers = (uint32_t)n;
	for (size_t i = 0; i < n && !r; i++) {
		struct descriptor *d = &m.layers[i];

		r = descriptor_parse(json_object_array_get_idx(layers, i), d, err);
		if (!r && !layer_type_known(d->media_type))
			r = err_set(err, -ENOTSUP, "the layer %s is of the type '%.120s', which is not supported", d->digest, d->media_type);
	}
	if (r) {
		free(m.layers);
		return r;
	}
	*ret = m;
	return 0;
}

void manifest_free(struct manifest *m)
{
	free(m->layers);
	json_object_put(m->root);
	*m = (struct manifest){ 0 };
}

static bool is_attestation(json_object *entry)
{
	json_object *a = json_member(entry, "annotations", json_type_object);

	return a && json_text(a, "vnd.docker.reference.type");
}

static bool may_hold_image(json_object *entry)
{
	const char *type = json_text(entry, "mediaType");

	return !type || !*type || strstr(type, ".manifest.") || strstr(type, ".index.");
}

int index_choose(json_object *root, const struct platform *want, unsigned nth, struct descriptor *ret, bool *ret_certain, struct edera_error *err)
{
	json_object *list = json_member(root, "manifests", json_type_array), *best = NULL, *silent = NULL;
	int best_rank = 0;
	char text[96], have[300] = "";

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *e = json_object_array_get_idx(list, i), *p = json_member(e, "platform", json_type_object);
		const char *arch = p ? json_text(p, "architecture") : NULL;
		struct platform found;

		if (!json_object_is_type(e, json_type_object) || is_attestation(e) || !may_hold_image(e))
			continue;
		if (!arch || !*arch) {
			if (!silent && nth-- == 0)
				silent = e;
			continue;
		}
		size_t used = strlen(have);

		platform_normalize(json_text(p, "os"), arch, json_text(p, "variant"), &found);
		if (!strcmp(found.os, "unknown") || !strcmp(found.arch, "unknown"))
			continue;
		snprintf(have + used, sizeof have - used, "%s%s", used ? ", " : "", platform_text(&found, text));
		if (platform_rank(want, &found) > best_rank) {
			best = e;
			best_rank = platform_rank(want, &found);
		}
	}
	*ret_certain = best != NULL;
	if (!best && !silent)
		return err_set(err, -ENOENT, "there is no image for %s%s%s", platform_text(want, text), have[0] ? "; there are: " : " in it", have);
	return descriptor_parse(best ? best : silent, ret, err);
}

int config_parse(const void *text, size_t len, struct image_config *ret, struct edera_error *err)
{
	struct image_config c = { 0 };
	json_object *rootfs, *ids;
	const char *arch, *os, *variant;
	int r = json_read(text, len, &c.root, err);

	if (r)
		return r;
	rootfs = json_member(c.root, "rootfs", json_type_object);
	ids = rootfs ? json_member(rootfs, "diff_ids", json_type_array) : NULL;
	arch = json_text(c.root, "architecture");
	if (!ids) {
		config_free(&c);
		return err_set(err, -EBADMSG, "it lists no layers (rootfs.diff_ids)");
	}
	os = json_text(c.root, "os");
	variant = json_text(c.root, "variant");
	c.has_platform = arch && arch[0];
	c.any_variant = !variant || !variant[0];
	platform_normalize(os && os[0] ? os : "linux", arch, variant, &c.platform);
	c.n_diff_ids = (uint32_t)json_object_array_length(ids);
	c.diff_ids = calloc(c.n_diff_ids + 1, sizeof *c.diff_ids);
	if (!c.diff_ids) {
		config_free(&c);
		return err_errno(err, -ENOMEM, "cannot read the image's config");
	}
	for (uint32_t i = 0; i < c.n_diff_ids && !r; i++) {
		json_object *id = json_object_array_get_idx(ids, i);

		c.diff_ids[i] = json_object_is_type(id, json_type_string) ? json_object_get_string(id) : "";
		r = digest_check(c.diff_ids[i], err);
	}
	if (r) {
		config_free(&c);
		return err_wrap(err, "a diff_id");
	}
	*ret = c;
	return 0;
}

void config_free(struct image_config *c)
{
	free(c->diff_ids);
	json_object_put(c->root);
	*c = (struct image_config){ 0 };
}
