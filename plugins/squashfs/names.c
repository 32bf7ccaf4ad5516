/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (16u << 20)

static int add(struct names *n, const char *text, uint32_t format, const char *digest, bool imported)
{
	char *copy = strdup(text);

	if (n->n == n->cap) {
		size_t cap = n->cap ? n->cap * 2 : 16;
		struct name *more = realloc(n->list, cap * sizeof *more);

		if (!more) {
			free(copy);
			return -ENOMEM;
		}
		n->list = more;
		n->cap = cap;
	}
	if (!copy)
		return -ENOMEM;
	n->list[n->n] = (struct name){ .text = copy, .format = format, .imported = imported };
	snprintf(n->list[n->n].digest, EDERA_DIGEST_MAX, "%s", digest);
	n->n++;
	return 0;
}

static const char *text_of(json_object *o, const char *key)
{
	json_object *v;

	return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
}

static void read_list(struct names *n, const struct buf *text)
{
	json_object *list = json_tokener_parse((char *)text->data);

	if (list && json_object_is_type(list, json_type_array))
		for (size_t i = 0; i < json_object_array_length(list); i++) {
			json_object *o = json_object_array_get_idx(list, i), *format, *imported;
			const char *name = text_of(o, "name"), *digest = text_of(o, "digest");

			if (name && digest && text_valid_digest(digest) && json_object_object_get_ex(o, "format", &format))
				add(n, name, (uint32_t)json_object_get_int(format), digest,
				    json_object_object_get_ex(o, "imported", &imported) && json_object_get_boolean(imported));
		}
	json_object_put(list);
}

int names_load(struct names *n, const char *path, struct edera_error *err)
{
	_buf_ struct buf text = BUF_INIT;

	*n = (struct names){ .path = strdup(path) };
	if (!n->path)
		return err_errno(err, -ENOMEM, "cannot read '%s'", path);
	if (path_read_file(path, FILE_MAX, &text, NULL) == 0)
		read_list(n, &text);
	return 0;
}

void names_free(struct names *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->list[i].text);
	free(n->list);
	free(n->path);
	*n = (struct names){ 0 };
}

static int save(const struct names *n, struct edera_error *err)
{
	json_object *list = json_object_new_array();
	const char *text;
	int r;

	for (size_t i = 0; i < n->n; i++) {
		json_object *o = json_object_new_object();

		json_object_object_add(o, "name", json_object_new_string(n->list[i].text));
		json_object_object_add(o, "format", json_object_new_int((int)n->list[i].format));
		json_object_object_add(o, "digest", json_object_new_string(n->list[i].digest));
		if (n->list[i].imported)
			json_object_object_add(o, "imported", json_object_new_boolean(true));
		json_object_array_add(list, o);
	}
	text = json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	r = path_write_file(n->path, text, strlen(text), 0600, err);
	json_object_put(list);
	return r;
}

static struct name *find(const struct names *n, const char *text, uint32_t format)
{
	for (size_t i = 0; i < n->n; i++)
		if (n->list[i].format == format && !strcmp(n->list[i].text, text))
			return &n->list[i];
	return NULL;
}

const char *names_find(const struct names *n, const char *text, uint32_t format)
{
	const struct name *found = find(n, text, format);

	return found ? found->digest : NULL;
}

bool names_imported(const struct names *n, const char *text, uint32_t format)
{
	const struct name *found = find(n, text, format);

	return found && found->imported;
}

static int set(struct names *n, const char *text, uint32_t format, const char *digest, bool imported, struct edera_error *err)
{
	struct name *old = find(n, text, format);

	if (old && old->imported == imported && !strcmp(old->digest, digest))
		return 0;
	if (old) {
		snprintf(old->digest, sizeof old->digest, "%s", digest);
		old->imported = imported;
	} else if (add(n, text, format, digest, imported)) {
		return err_errno(err, -ENOMEM, "cannot keep the name '%.200s'", text);
	}
	return save(n, err);
}

int names_set(struct names *n, const char *text, uint32_t format, const char *digest, struct edera_error *err) { return set(n, text, format, digest, false, err); }

int names_set_imported(struct names *n, const char *text, uint32_t format, const char *digest, struct edera_error *err)
{
	return set(n, text, format, digest, true, err);
}

int names_drop_digest(struct names *n, const char *digest, uint32_t format, struct edera_error *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < n->n; i++) {
		if (n->list[i].format == format && !strcmp(n->list[i].digest, digest))
			free(n->list[i].text);
		else
			n->list[kept++] = n->list[i];
	}
	if (kept == n->n)
		return 0;
	n->n = kept;
	return save(n, err);
}
