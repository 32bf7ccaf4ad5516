/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a repository, and its copy on disk: CACHE/variants/NAME-HASH.json. The file is checked like an answer of the
 * network when it is read back, and whatever is not sound in it is left out. */
#include "registry.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <json-c/json.h>
#include <string.h>

#define MAX_FILE (4u << 20)

static void json_put(struct json_object **o) { json_object_put(*o); }
#define _json_ _cleanup_(json_put)

void catalog_free(struct catalog *c)
{
	free(c->list);
	*c = (struct catalog){ 0 };
}

static bool name_valid(const char *s)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

	return *s && !strchr("._-", *s) && strspn(s, set) == strlen(s);
}

static bool version_valid(const char *s)
{
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
			return false;
	return *s != 0;
}

static bool tag_valid(const char *s)
{
	return name_valid(s) || *s == '_';
}

/* Of two tags for one version: the one that spells it out, else the longer, which says more. */
static bool better_tag(const char *tag, const char *than, const char *version)
{
	bool exact = !strcmp(tag, version), than_exact = !strcmp(than, version);

	if (exact != than_exact)
		return exact;
	return strlen(tag) != strlen(than) ? strlen(tag) > strlen(than) : strcmp(tag, than) > 0;
}

int catalog_add(struct catalog *c, const struct variant *v)
{
	struct variant *more;

	if (!name_valid(v->name) || !version_valid(v->version) || !tag_valid(v->tag) || !text_valid_digest(v->digest))
		return 0;
	for (size_t i = 0; i < c->n; i++) {
		struct variant *old = &c->list[i];
		int newer;

		if (strcmp(old->name, v->name))
			continue;
		newer = version_compare(v->version, old->version);
		if (newer > 0 || (!newer && better_tag(v->tag, old->tag, v->version)))
			*old = *v;
		return 0;
	}
	more = reallocarray(c->list, c->n + 1, sizeof *more);
	if (!more)
		return -ENOMEM;
	c->list = more;
	more[c->n++] = *v;
	return 0;
}

static const char *text_of(struct json_object *o, const char *key)
{
	struct json_object *v = json_object_object_get(o, key);

	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}

static bool copy(char *dst, size_t size, const char *src)
{
	return (size_t)snprintf(dst, size, "%s", src) < size;
}

int catalog_parse(const char *json, size_t len, const char *repository, struct catalog *ret)
{
	struct json_tokener *t = json_tokener_new_ex(8);
	_json_ struct json_object *o = t ? json_tokener_parse_ex(t, json, (int)len) : NULL;
	struct json_object *list = json_object_is_type(o, json_type_object) ? json_object_object_get(o, "variants") : NULL;
	struct catalog c = { 0 };
	int r = 0;

	if (t)
		json_tokener_free(t);
	if (!json_object_is_type(list, json_type_array) || json_object_get_int(json_object_object_get(o, "format")) != 1 ||
	    strcmp(text_of(o, "repository"), repository))
		return -EINVAL;
	c.fetched = json_object_get_int64(json_object_object_get(o, "fetched"));
	for (size_t i = 0; i < json_object_array_length(list) && i < MAX_TAGS && !r; i++) {
		struct json_object *e = json_object_array_get_idx(list, i);
		struct variant v = { 0 };

		if (json_object_is_type(e, json_type_object) && copy(v.name, sizeof v.name, text_of(e, "name")) &&
		    copy(v.tag, sizeof v.tag, text_of(e, "tag")) && copy(v.version, sizeof v.version, text_of(e, "version")) &&
		    copy(v.digest, sizeof v.digest, text_of(e, "digest")))
			r = catalog_add(&c, &v);
	}
	if (r)
		catalog_free(&c);
	else
		*ret = c;
	return r;
}

/* Readable, and one of its kind: the name with everything odd replaced, and a hash of what it was. */
static int file_of(const struct edera_host *host, const char *repository, char dst[PATH_CAP], struct edera_error *err)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	char name[129];
	size_t n = 0;

	for (const char *p = repository; *p; p++) {
		hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
		if (n < sizeof name - 1)
			name[n++] = strchr("abcdefghijklmnopqrstuvwxyz0123456789.-", *p) ? *p : '_';
	}
	name[n] = 0;
	return path_format(dst, err, "%s/variants/%s-%016llx.json", host->path(host->core, EDERA_PATH_CACHE), name, (unsigned long long)hash);
}

int catalog_load(const struct edera_host *host, const char *repository, struct catalog *ret)
{
	_buf_ struct buf text = BUF_INIT;
	char path[PATH_CAP];
	int r = file_of(host, repository, path, NULL);

	if (!r)
		r = path_read_file(path, MAX_FILE, &text, NULL);
	return r ? r : catalog_parse((char *)text.data, text.len, repository, ret);
}

static struct json_object *to_json(const char *repository, const struct catalog *c)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();

	json_object_object_add(o, "format", json_object_new_int(1));
	json_object_object_add(o, "repository", json_object_new_string(repository));
	json_object_object_add(o, "fetched", json_object_new_int64(c->fetched));
	for (size_t i = 0; i < c->n; i++) {
		struct json_object *e = json_object_new_object();

		json_object_object_add(e, "name", json_object_new_string(c->list[i].name));
		json_object_object_add(e, "tag", json_object_new_string(c->list[i].tag));
		json_object_object_add(e, "version", json_object_new_string(c->list[i].version));
		json_object_object_add(e, "digest", json_object_new_string(c->list[i].digest));
		json_object_array_add(list, e);
	}
	json_object_object_add(o, "variants", list);
	return o;
}

int catalog_save(const struct edera_host *host, const char *repository, const struct catalog *c, struct edera_error *err)
{
	_json_ struct json_object *o = to_json(repository, c);
	const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY);
	char path[PATH_CAP], dir[PATH_CAP];
	int r = path_format(dir, err, "%s/variants", host->path(host->core, EDERA_PATH_CACHE));

	if (!r)
		r = path_mkdirs(dir, 0755, err);
	if (!r)
		r = file_of(host, repository, path, err);
	return r ? r : path_write_file(path, text, strlen(text), 0644, err);
}
