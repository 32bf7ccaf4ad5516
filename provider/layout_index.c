/* SPDX-License-Identifier: Apache-2.0 */
#include "layout_index.h"

#include <string.h>

static json_object *entries(json_object *index, size_t *ret_n)
{
	json_object *list = json_member(index, "manifests", json_type_array);

	*ret_n = list ? json_object_array_length(list) : 0;
	return list;
}

static const char *annotation(json_object *entry, const char *key)
{
	json_object *a = json_member(entry, "annotations", json_type_object);

	return a ? json_text(a, key) : NULL;
}

static const char *short_name(json_object *entry) { return annotation(entry, "org.opencontainers.image.ref.name"); }
static const char *full_name(json_object *entry) { return annotation(entry, "io.containerd.image.name"); }

static bool is_tag(json_object *entry, const char *tag)
{
	const char *s = short_name(entry), *f = full_name(entry);

	return (s && !strcmp(s, tag)) || (f && !strcmp(f, tag));
}

/* A reference with everything spelled out; a tag alone is none. */
static bool canonical(const char *text, char dst[REFERENCE_CAP])
{
	struct reference r;

	if (!text || !strpbrk(text, "/:") || reference_parse(text, &r, NULL))
		return false;
	reference_format(&r, dst);
	return true;
}

static bool is_called(json_object *entry, const char *name)
{
	char text[REFERENCE_CAP];

	return (canonical(full_name(entry), text) && !strcmp(text, name)) || (canonical(short_name(entry), text) && !strcmp(text, name));
}

/* All the same, under however many names? */
static bool one_digest(json_object *list, size_t n)
{
	const char *first = n ? json_text(json_object_array_get_idx(list, 0), "digest") : NULL;

	for (size_t i = 1; first && i < n; i++) {
		const char *other = json_text(json_object_array_get_idx(list, i), "digest");

		if (!other || strcmp(first, other))
			return false;
	}
	return first != NULL;
}

/* The one whose tag is the name's, if there is just one. */
static json_object *by_tag_of(json_object *list, size_t n, const char *name)
{
	json_object *found = NULL;
	struct reference r;

	if (reference_parse(name, &r, NULL) || !r.tag[0])
		return NULL;
	for (size_t i = 0; i < n; i++) {
		json_object *e = json_object_array_get_idx(list, i);

		if (is_tag(e, r.tag)) {
			if (found)
				return NULL;
			found = e;
		}
	}
	return found;
}

int layout_index_choose(json_object *index, const struct origin *o, const char *where, char ret[DIGEST_MAX], struct edera_error *err)
{
	json_object *list, *found = NULL;
	struct descriptor d;
	size_t n;
	int r;

	list = entries(index, &n);
	for (size_t i = 0; i < n; i++) {
		json_object *e = json_object_array_get_idx(list, i);

		if (o->tag[0] ? is_tag(e, o->tag) : o->name[0] && is_called(e, o->name))
			found = e;
	}
	if (!found && !o->tag[0] && one_digest(list, n))
		found = json_object_array_get_idx(list, 0);
	if (!found && o->name[0])
		found = by_tag_of(list, n, o->name);
	if (!found && o->name[0])
		return err_set(err, -ENOENT, "%.202s holds %zu images, none of them called '%.200s'", where, n, o->name);
	if (!found && o->tag[0])
		return err_set(err, -ENOENT, "%.202s holds no image with the tag '%s'", where, o->tag);
	if (!found)
		return err_set(err, -ENOENT, "%.202s holds %zu images; name one%s", where, n, o->kind == ORIGIN_ARCHIVE ? "" : " by its tag, as in oci:DIR:TAG");
	r = descriptor_parse(found, &d, err);
	if (!r)
		strcpy(ret, d.digest);
	return r;
}

void layout_name_add(json_object *names, const char *name)
{
	char text[REFERENCE_CAP];
	size_t n = json_object_array_length(names);

	if (!canonical(name, text) || n >= LAYOUT_NAMES_MAX)
		return;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(json_object_get_string(json_object_array_get_idx(names, i)), text))
			return;
	json_object_array_add(names, json_object_new_string(text));
}

void layout_index_names(json_object *index, const char *digest, json_object *names)
{
	size_t n;
	json_object *list = entries(index, &n);

	for (size_t i = 0; i < n; i++) {
		json_object *e = json_object_array_get_idx(list, i);
		const char *d = json_text(e, "digest");

		if (!d || strcmp(d, digest))
			continue;
		layout_name_add(names, full_name(e));
		layout_name_add(names, short_name(e));
	}
}
