/* SPDX-License-Identifier: Apache-2.0 */
/* The tags of a repository: a list in pages, each of which names the next. */
#include "registry.h"
#include "headers.h"
#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAGS_BODY_MAX (4u << 20)
#define TAG_PAGES_MAX 500
#define TAGS_MAX 100000
#define TAGS_SECONDS 600

/* A link is followed only within the registry it came from. */
static int next_page(const struct endpoint *e, const char *path, const char *link, char ret[URL_MAX], struct edera_error *err)
{
	char origin[300], base[URL_MAX + 300];
	_free_ char *to = NULL;
	const char *rest;

	snprintf(origin, sizeof origin, "%s://%s", e->plain ? "http" : "https", e->host);
	snprintf(base, sizeof base, "%s%s", origin, path);
	to = url_join(base, link);
	if (!to || !url_same_origin(to, origin))
		return err_set(err, -EPROTO, "the registry %s continues its list of tags at another place, which is not followed", e->host);
	rest = strchr(strstr(to, "://") + 3, '/');
	snprintf(ret, URL_MAX, "%s", rest ? rest : "/");
	return 0;
}

static bool tag_is_valid(json_object *o)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	const char *s = json_object_is_type(o, json_type_string) ? json_object_get_string(o) : "";
	size_t n = strlen(s);

	return n > 0 && n <= ORIGIN_TAG_MAX && *s != '.' && *s != '-' && strspn(s, allowed) == n && n == (size_t)json_object_get_string_len(o);
}

static int read_tags(const struct buf *body, int (*tag)(void *, const char *), void *user, unsigned *total, struct edera_error *err)
{
	_json_ json_object *o = NULL;
	json_object *tags;
	int rc = json_read(body->data, body->len, &o, err);

	if (!rc && !json_object_is_type(o, json_type_object))
		rc = err_set(err, -EBADMSG, "it is not an object");
	if (rc)
		return rc;
	tags = json_member(o, "tags", json_type_array);
	for (size_t i = 0; tags && i < json_object_array_length(tags) && !rc; i++) {
		json_object *t = json_object_array_get_idx(tags, i);

		if (!tag_is_valid(t))
			continue;
		if (++*total > TAGS_MAX)
			return err_set(err, -E2BIG, "it has more than %d tags", TAGS_MAX);
		rc = tag(user, json_object_get_string(t));
	}
	return rc;
}

/* A page that was there before leads in a circle. */
static int remember(json_object *seen, const char *path, struct edera_error *err)
{
	if (json_object_object_get_ex(seen, path, NULL))
		return err_set(err, -ELOOP, "its pages lead in a circle");
	if (json_object_object_length(seen) == TAG_PAGES_MAX)
		return err_set(err, -E2BIG, "it has more than %d pages", TAG_PAGES_MAX);
	json_object_object_add(seen, path, json_object_new_boolean(true));
	return 0;
}

int registry_tags(struct source *s, int (*tag)(void *, const char *), void *user, struct edera_error *err)
{
	struct registry *r = (struct registry *)s;
	_json_ json_object *seen = json_object_new_object();
	struct http_request q = { 0 };
	char path[URL_MAX], next[URL_MAX], link[2048], name[700];
	double until = now_seconds() + TAGS_SECONDS;
	unsigned total = 0;
	int rc = registry_get(r, "tags", "list", "application/json", TAGS_BODY_MAX, &q, err);
	struct endpoint *e = &r->endpoints[r->good];

	if (!rc)
		rc = registry_path(r, e, "tags", "list", path, err);
	while (!rc) {
		snprintf(name, sizeof name, "%s/%s, list of tags, page %d", e->host, r->ref.image.repository, json_object_object_length(seen) + 1);
		rc = remember(seen, path, err);
		if (!rc)
			rc = read_tags(&q.body, tag, user, &total, err);
		if (!rc && now_seconds() > until)
			rc = err_set(err, -ETIMEDOUT, "it takes longer than %d seconds", TAGS_SECONDS);
		if (rc) {
			err_wrap(err, "%s%s%.60s", name, q.content_type[0] ? ", " : "", q.content_type);
			break;
		}
		if (!header_next_link(q.link, link, sizeof link))
			break;
		rc = next_page(e, path, link, next, err);
		if (rc)
			break;
		strcpy(path, next);
		http_request_reset(&q);
		q = (struct http_request){ .accept = "application/json", .max_body = TAGS_BODY_MAX };
		rc = registry_request(r, e, path, &q, TRIES_MAX, name, err);
	}
	http_request_reset(&q);
	return rc;
}
