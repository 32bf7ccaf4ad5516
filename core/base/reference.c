/* SPDX-License-Identifier: Apache-2.0 */
#include "base/reference.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define ALNUM LOWER UPPER DIGITS

struct part {
	const char *s;
	size_t len;
};

static bool only(struct part p, const char *set)
{
	for (size_t i = 0; i < p.len; i++)
		if (!strchr(set, p.s[i]))
			return false;
	return p.len > 0;
}

/* Letters, digits and inner hyphens. */
static bool host_label(struct part p)
{
	return only(p, ALNUM "-") && p.s[0] != '-' && p.s[p.len - 1] != '-';
}

static bool host_name(struct part p)
{
	if (p.len > 2 && p.s[0] == '[')
		return p.s[p.len - 1] == ']' && only((struct part){ p.s + 1, p.len - 2 }, "0123456789abcdefABCDEF:");
	while (p.len) {
		const char *dot = memchr(p.s, '.', p.len);
		size_t n = dot ? (size_t)(dot - p.s) : p.len;

		if (!host_label((struct part){ p.s, n }) || (dot && n + 1 == p.len))
			return false;
		p.s += dot ? n + 1 : n;
		p.len -= dot ? n + 1 : n;
	}
	return true;
}

static bool registry_valid(struct part p)
{
	const char *colon = NULL;
	size_t n;

	for (size_t i = 0; i < p.len; i++)
		if (p.s[i] == ':')
			colon = p.s + i;
		else if (p.s[i] == ']')
			colon = NULL;
	if (p.len && p.s[0] == '[' && p.s[p.len - 1] == ']')
		colon = NULL;
	n = colon ? (size_t)(colon - p.s) : p.len;
	if (colon && (p.len - n - 1 > 5 || !only((struct part){ colon + 1, p.len - n - 1 }, DIGITS)))
		return false;
	return n > 0 && host_name((struct part){ p.s, n });
}

/* Lower-case words joined by one '.', one or two '_', or any number of '-'. */
static bool path_component(struct part p)
{
	for (size_t i = 0; i < p.len;) {
		size_t word = i, sep;

		while (i < p.len && strchr(LOWER DIGITS, p.s[i]))
			i++;
		if (i == word)
			return false;
		if (i == p.len)
			return true;
		sep = i;
		while (i < p.len && p.s[i] == p.s[sep] && strchr("._-", p.s[i]))
			i++;
		if (i == sep || (p.s[sep] == '.' && i - sep > 1) || (p.s[sep] == '_' && i - sep > 2))
			return false;
	}
	return false;
}

static bool repository_valid(struct part p)
{
	while (p.len) {
		const char *slash = memchr(p.s, '/', p.len);
		size_t n = slash ? (size_t)(slash - p.s) : p.len;

		if (!path_component((struct part){ p.s, n }) || (slash && n + 1 == p.len))
			return false;
		p.s += slash ? n + 1 : n;
		p.len -= slash ? n + 1 : n;
	}
	return true;
}

static bool tag_valid(struct part p)
{
	return p.len <= 128 && only(p, ALNUM "_.-") && p.s[0] != '.' && p.s[0] != '-';
}

static void copy(char *dst, struct part p)
{
	memcpy(dst, p.s, p.len);
	dst[p.len] = 0;
}

/* Is what stands before the first slash a registry, or the first part of a name on Docker Hub? */
static bool names_registry(struct part p)
{
	if (p.len == 9 && !memcmp(p.s, "localhost", 9))
		return true;
	for (size_t i = 0; i < p.len; i++)
		if (strchr(".:[" UPPER, p.s[i]))
			return true;
	return false;
}

static int split_name(const char *text, struct part name, struct reference *r, struct edera_error *err)
{
	const char *slash = memchr(name.s, '/', name.len);
	struct part host = { name.s, slash ? (size_t)(slash - name.s) : 0 }, path = name;
	bool official;

	if (slash && names_registry(host)) {
		path = (struct part){ slash + 1, name.len - host.len - 1 };
		if (host.len >= sizeof r->registry || !registry_valid(host))
			return err_set(err, -EINVAL, "'%.300s' is not an image reference: '%.*s' is not a registry's host name", text,
				       (int)host.len, host.s);
		copy(r->registry, host);
	}
	if (!host.len || !r->registry[0] || !strcmp(r->registry, "index.docker.io"))
		strcpy(r->registry, "docker.io");
	official = !strcmp(r->registry, "docker.io") && !memchr(path.s, '/', path.len);
	if (path.len == 0 || path.len + (official ? strlen("library/") : 0) >= sizeof r->repository)
		return err_set(err, -EINVAL, "'%.300s' is not an image reference: the repository's name is %s", text,
			       path.len ? "longer than 255 characters" : "empty");
	if (!repository_valid(path))
		return err_set(err, -EINVAL, "'%.300s' is not an image reference: a repository's name is lower-case letters, digits and "
			       "single separators between slashes, as in ghcr.io/org/name:tag", text);
	if (path.len == 64 && strlen(text) == 64 && only(path, "0123456789abcdef"))
		return err_set(err, -EINVAL, "'%.300s' is not an image reference but the ID of an image", text);
	if (!official)
		copy(r->repository, path);
	else
		snprintf(r->repository, sizeof r->repository, "library/%.*s", (int)path.len, path.s);
	return 0;
}

int reference_parse(const char *text, struct reference *ret, struct edera_error *err)
{
	struct reference r = { 0 };
	struct part name = { text, strlen(text) };
	const char *at = strchr(text, '@'), *colon = NULL;
	int e;

	if (at) {
		if (!text_valid_digest(at + 1))
			return err_set(err, -EINVAL, "'%.300s' is not an image reference: after '@' comes sha256: and 64 hexadecimal digits", text);
		strcpy(r.digest, at + 1);
		name.len = (size_t)(at - text);
	}
	for (size_t i = name.len; i > 0 && name.s[i - 1] != '/' && name.s[i - 1] != ']'; i--)
		if (name.s[i - 1] == ':')
			colon = name.s + i - 1;
	if (colon) {
		struct part tag = { colon + 1, name.len - (size_t)(colon + 1 - name.s) };

		if (!tag_valid(tag))
			return err_set(err, -EINVAL, "'%.300s' is not an image reference: a tag is 1 to 128 letters, digits, '_', '.' and '-', "
				       "not beginning with '.' or '-'", text);
		copy(r.tag, tag);
		name.len = (size_t)(colon - name.s);
	}
	e = split_name(text, name, &r, err);
	if (e)
		return e;
	if (!r.tag[0] && !r.digest[0])
		strcpy(r.tag, "latest");
	*ret = r;
	return 0;
}

int reference_parse_repository(const char *text, struct reference *ret, struct edera_error *err)
{
	const char *slash = strrchr(text, '/'), *last = slash ? slash : text;
	struct reference r;
	int e;

	if (strchr(text, '@') || strchr(last, ':'))
		return err_set(err, -EINVAL, "'%.300s' is not a repository: leave out the tag or digest", text);
	e = reference_parse(text, &r, err);
	if (e)
		return e;
	r.tag[0] = 0;
	*ret = r;
	return 0;
}

bool reference_from_containerd(const char **text)
{
	static const char prefix[] = "containerd:";

	if (!text_starts(*text, prefix))
		return false;
	*text += sizeof prefix - 1;
	return true;
}

void reference_format(const struct reference *r, char dst[REFERENCE_CAP])
{
	snprintf(dst, REFERENCE_CAP, "%s/%s%s%s%s%s", r->registry, r->repository, r->tag[0] ? ":" : "", r->tag, r->digest[0] ? "@" : "",
		 r->digest);
}
