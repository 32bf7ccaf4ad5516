/* SPDX-License-Identifier: Apache-2.0 */
#include "docker_archive.h"
#include "layout_index.h"
#include "manifest.h"
#include "base/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void docker_archive_free(struct docker_archive *a)
{
	free(a->config.path);
	for (uint32_t i = 0; i < a->n_layers; i++)
		free(a->layers[i].path);
	free(a->layers);
	digest_free(&a->digest);
	json_object_put(a->names);
}

static bool tagged(json_object *image, const char *name)
{
	json_object *tags = json_member(image, "RepoTags", json_type_array);
	char text[REFERENCE_CAP];
	struct reference r;

	for (size_t i = 0; tags && i < json_object_array_length(tags); i++) {
		const char *tag = json_object_get_string(json_object_array_get_idx(tags, i));

		if (!tag || reference_parse(tag, &r, NULL))
			continue;
		reference_format(&r, text);
		if (!strcmp(text, name))
			return true;
	}
	return false;
}

/* Where it has no name, RepoTags is null. */
static void take_names(struct docker_archive *a, json_object *image)
{
	json_object *tags = json_member(image, "RepoTags", json_type_array);

	a->names = json_object_new_array();
	for (size_t i = 0; tags && i < json_object_array_length(tags); i++) {
		json_object *tag = json_object_array_get_idx(tags, i);

		if (json_object_is_type(tag, json_type_string))
			layout_name_add(a->names, json_object_get_string(tag));
	}
}

static int take(struct docker_archive *a, json_object *image, char path[4096], struct edera_error *err)
{
	const char *config = json_text(image, "Config");
	json_object *layers = json_member(image, "Layers", json_type_array);
	size_t n = layers ? json_object_array_length(layers) : 0;

	if (!config || !layers || strlen(config) >= 4096 || n > MANIFEST_LAYERS_MAX)
		return err_set(err, -EBADMSG, "manifest.json of the archive names no config, or no layers, or more than %d", MANIFEST_LAYERS_MAX);
	strcpy(path, config);
	a->layers = calloc(n + 1, sizeof *a->layers);
	if (!a->layers)
		return err_errno(err, -ENOMEM, "cannot read an archive");
	for (size_t i = 0; i < n; i++) {
		json_object *l = json_object_array_get_idx(layers, i);
		const char *s = json_object_is_type(l, json_type_string) ? json_object_get_string(l) : "";

		if (strlen(s) >= 4096 || !(a->layers[i].path = strdup(s)))
			return err_set(err, -EBADMSG, "manifest.json of the archive names a layer that cannot be");
		a->n_layers++;
	}
	return 0;
}

int docker_archive_choose(struct docker_archive *a, const void *list, size_t len, const char *name, bool lenient, char path[4096], struct edera_error *err)
{
	_json_ json_object *root = NULL;
	json_object *found = NULL;
	size_t n;
	int r = json_read(list, len, &root, err);

	if (r)
		return err_wrap(err, "manifest.json of the archive");
	n = json_object_is_type(root, json_type_array) ? json_object_array_length(root) : 0;
	for (size_t i = 0; i < n; i++) {
		json_object *image = json_object_array_get_idx(root, i);

		if (name[0] && !(lenient && n == 1) ? tagged(image, name) : n == 1)
			found = image;
	}
	if (!found && name[0])
		return err_set(err, -ENOENT, "the archive holds no image called '%.200s'", name);
	if (!found)
		return err_set(err, -ENOENT, "the archive holds %zu images; name one%s", n, lenient ? "" : ", as in docker-archive:FILE:REF");
	take_names(a, found);
	return take(a, found, path, err);
}

int docker_archive_nth(struct docker_archive *a, const void *list, size_t len, size_t nth, char path[4096], struct edera_error *err)
{
	_json_ json_object *root = NULL;
	int r = json_read(list, len, &root, err);

	if (r)
		return err_wrap(err, "manifest.json of the archive");
	if (!json_object_is_type(root, json_type_array) || nth >= json_object_array_length(root))
		return -ENOENT;
	take_names(a, json_object_array_get_idx(root, nth));
	return take(a, json_object_array_get_idx(root, nth), path, err);
}

static int set(struct docker_file *f, const char *path, uint64_t size)
{
	f->size = size;
	f->path = strdup(path);
	return f->path ? 0 : -ENOMEM;
}

int docker_archive_config(struct docker_archive *a, const char *path, const struct buf *config, struct edera_error *err)
{
	int r = digest_of(config->data, config->len, "sha256:", a->config.digest, err);

	if (!r && set(&a->config, path, config->len))
		r = err_errno(err, -ENOMEM, "cannot read an archive");
	return r;
}

int docker_archive_next(struct docker_archive *a, uint32_t i, char path[4096])
{
	if (i == a->n_layers)
		return 0;
	strcpy(path, a->layers[i].path);
	return 1;
}

bool docker_archive_layer_again(struct docker_archive *a, uint32_t i, uint64_t offset)
{
	struct docker_file *f = &a->layers[i];

	f->offset = offset;
	for (uint32_t j = 0; j < i; j++)
		if (a->layers[j].offset == offset) {
			f->size = a->layers[j].size;
			strcpy(f->digest, a->layers[j].digest);
			return true;
		}
	return false;
}

int docker_archive_layer_begin(struct docker_archive *a, uint32_t i, uint64_t size, struct edera_error *err)
{
	a->layers[i].size = size;
	return digest_begin(&a->digest, "sha256:", err);
}

int docker_archive_layer_data(struct docker_archive *a, const void *data, size_t n) { return digest_update(&a->digest, data, n); }
int docker_archive_layer_end(struct docker_archive *a, uint32_t i) { return digest_end(&a->digest, a->layers[i].digest); }

static json_object *descriptor(const char *type, const struct docker_file *f)
{
	json_object *o = json_object_new_object();

	json_object_object_add(o, "mediaType", json_object_new_string(type));
	json_object_object_add(o, "digest", json_object_new_string(f->digest));
	json_object_object_add(o, "size", json_object_new_int64((int64_t)f->size));
	return o;
}

int docker_archive_manifest(const struct docker_archive *a, struct buf *ret, struct edera_error *err)
{
	_json_ json_object *o = json_object_new_object();
	json_object *layers = json_object_new_array();

	json_object_object_add(o, "schemaVersion", json_object_new_int(2));
	json_object_object_add(o, "mediaType", json_object_new_string("application/vnd.docker.distribution.manifest.v2+json"));
	json_object_object_add(o, "config", descriptor("application/vnd.docker.container.image.v1+json", &a->config));
	for (uint32_t i = 0; i < a->n_layers; i++)
		json_object_array_add(layers, descriptor("application/vnd.docker.image.rootfs.diff.tar", &a->layers[i]));
	json_object_object_add(o, "layers", layers);
	buf_puts(ret, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	return ret->failed ? err_errno(err, -ENOMEM, "cannot read an archive") : 0;
}

bool docker_archive_path(const struct docker_archive *a, const char *digest, char path[4096])
{
	const struct docker_file *f = a->config.path && !strcmp(a->config.digest, digest) ? &a->config : NULL;

	for (uint32_t i = 0; i < a->n_layers && !f; i++)
		if (!strcmp(a->layers[i].digest, digest))
			f = &a->layers[i];
	if (f)
		snprintf(path, 4096, "%s", f->path);
	return f != NULL;
}
