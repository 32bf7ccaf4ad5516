/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

static bool valid_tag(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > REFERENCE_TAG_MAX || s[0] == '.' || s[0] == '-')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && *s != '_' && *s != '.' && *s != '-')
			return false;
	return true;
}

/* Runs of lower-case letters and digits, joined by '.', '_', '__' or any number of '-'. */
static bool valid_component(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n) {
		size_t start = i;

		while (i < n && lower_or_digit(s[i]))
			i++;
		if (i == start)
			return false;
		if (i == n)
			return true;
		if (s[i] == '.')
			i++;
		else if (s[i] == '_')
			i += i + 1 < n && s[i + 1] == '_' ? 2 : 1;
		else if (s[i] == '-')
			while (i < n && s[i] == '-')
				i++;
		else
			return false;
	}
	return false;
}

static bool valid_path(const char *s)
{
	for (;;) {
		size_t n = strcspn(s, "/");

		if (!valid_component(s, n))
			return false;
		if (!s[n])
			return true;
		s += n + 1;
	}
}

static bool valid_host(const char *s)
{
	size_t n;

	if (*s == '[') {
		n = strspn(s + 1, "0123456789abcdefABCDEF:");
		if (n < 2 || s[n + 1] != ']')
			return false;
		s += n + 2;
	} else {
		for (;;) {
			n = 0;
			while (isalnum((unsigned char)s[n]) || (s[n] == '-' && n > 0))
				n++;
			if (n == 0 || s[n - 1] == '-')
				return false;
			s += n;
			if (*s != '.')
				break;
			s++;
		}
	}
	if (!*s)
		return true;
	return *s == ':' && s[1] && strspn(s + 1, "0123456789") == strlen(s + 1) && strlen(s) <= 6;
}

/* The first component is a host if no repository's first component could look like it. */
static bool looks_like_host(const char *s, size_t n)
{
	if (n == strlen("localhost") && memcmp(s, "localhost", n) == 0)
		return true;
	for (size_t i = 0; i < n; i++)
		if (s[i] == '.' || s[i] == ':' || (s[i] >= 'A' && s[i] <= 'Z'))
			return true;
	return false;
}

static int split_name(const char *name, struct reference *r, const char *text, struct edera_error *err)
{
	size_t host = strcspn(name, "/");
	bool has_host = name[host] && looks_like_host(name, host);
	const char *path = has_host ? name + host + 1 : name;
	const char *library = "";

	if (has_host && host > REFERENCE_HOST_MAX)
		return err_set(err, -EINVAL, "'%.200s' is not an image reference: its registry's name is too long", text);
	snprintf(r->host, sizeof r->host, "%.*s", has_host ? (int)host : (int)strlen("docker.io"), has_host ? name : "docker.io");
	if (!strcmp(r->host, "index.docker.io"))
		strcpy(r->host, "docker.io");
	if (!valid_host(r->host))
		return err_set(err, -EINVAL, "'%.200s' is not an image reference: '%.100s' is no host name", text, r->host);
	if (!valid_path(path)) {
		for (const char *p = path; *p; p++)
			if (*p >= 'A' && *p <= 'Z')
				return err_set(err, -EINVAL, "'%.200s' is not an image reference: the repository's name must be in lower case", text);
		return err_set(err, -EINVAL, "'%.200s' is not an image reference: '%.100s' is no repository name", text, path);
	}
	if (!strcmp(r->host, "docker.io") && !strchr(path, '/'))
		library = "library/";
	if (strlen(library) + strlen(path) > REFERENCE_PATH_MAX)
		return err_set(err, -EINVAL, "'%.100s...' is not an image reference: the repository's name is longer than %d bytes", text, REFERENCE_PATH_MAX);
	stpcpy(stpcpy(r->path, library), path);
	return 0;
}

/* After "oci:" and the like: a path, and what picks the image in it. */
static int parse_place(const char *text, const char *rest, struct reference *r, struct edera_error *err)
{
	const char *slash = strrchr(rest, '/'), *at = strrchr(slash ? slash : rest, '@'), *colon = strchr(slash ? slash : rest, ':');
	size_t n = strlen(rest);

	if (r->kind == REFERENCE_DOCKER_ARCHIVE) {
		colon = strchr(rest, ':');
		if (colon) {
			n = (size_t)(colon - rest);
			if (strlen(colon + 1) >= sizeof r->name)
				return err_set(err, -EINVAL, "'%.200s...': the image's name is too long", text);
			snprintf(r->name, sizeof r->name, "%s", colon + 1);
		}
	} else if (at && text_valid_digest(at + 1)) {
		n = (size_t)(at - rest);
		snprintf(r->digest, sizeof r->digest, "%s", at + 1);
	} else if (colon) {
		n = (size_t)(colon - rest);
		/* Tags of layouts are free text in practice: any annotation that fits. */
		if (!colon[1] || strlen(colon + 1) > REFERENCE_TAG_MAX)
			return err_set(err, -EINVAL, "'%.200s': what follows the last ':' is no tag", text);
		snprintf(r->tag, sizeof r->tag, "%s", colon + 1);
	}
	if (n == 0 || n >= sizeof r->file)
		return err_set(err, -EINVAL, "'%.200s' names no %s", text, r->kind == REFERENCE_LAYOUT ? "directory" : "file");
	snprintf(r->file, sizeof r->file, "%.*s", (int)n, rest);
	return 0;
}

static bool is_hex_id(const char *s) { return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64; }

int reference_parse(const char *text, struct reference *ret, struct edera_error *err)
{
	static const struct {
		const char *prefix;
		enum reference_kind kind;
	} places[] = { { "oci:", REFERENCE_LAYOUT }, { "oci-archive:", REFERENCE_OCI_ARCHIVE }, { "docker-archive:", REFERENCE_DOCKER_ARCHIVE } };
	struct reference r = { .kind = REFERENCE_REGISTRY };
	char name[1024];
	char *at, *colon;
	int e;

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (text_starts(text, places[i].prefix)) {
			r.kind = places[i].kind;
			e = parse_place(text, text + strlen(places[i].prefix), &r, err);
			if (!e)
				*ret = r;
			return e;
		}
	if (text_starts(text, "docker://"))
		text += strlen("docker://");
	if (strlen(text) >= sizeof name)
		return err_set(err, -EINVAL, "'%.100s...' is not an image reference: it is too long", text);
	strcpy(name, text);
	at = strchr(name, '@');
	if (at) {
		*at++ = 0;
		if (digest_check(at, err))
			return err_wrap(err, "'%.200s' is not an image reference", text);
		snprintf(r.digest, sizeof r.digest, "%s", at);
	}
	colon = strrchr(name, ':');
	if (colon && !strchr(colon, '/') && colon[1] != 0 && colon != name) {
		*colon++ = 0;
		if (!valid_tag(colon))
			return err_set(err, -EINVAL, "'%.200s' is not an image reference: '%.140s' is no tag", text, colon);
		snprintf(r.tag, sizeof r.tag, "%s", colon);
	} else if (is_hex_id(name)) {
		return err_set(err, -EINVAL, "'%.200s' is not an image reference: 64 hex digits would be an image id", text);
	}
	e = split_name(name, &r, text, err);
	if (e)
		return e;
	if (!r.tag[0] && !r.digest[0])
		strcpy(r.tag, "latest");
	*ret = r;
	return 0;
}

int reference_parse_repository(const char *text, struct reference *ret, struct edera_error *err)
{
	struct reference r;
	int e = reference_parse(text, &r, err);

	if (e)
		return e;
	if (r.kind == REFERENCE_REGISTRY) {
		const char *slash = strrchr(text, '/');

		if (strchr(slash ? slash : text, ':') || strchr(text, '@'))
			return err_set(err, -EINVAL, "'%.200s' names an image, where a repository is wanted (without tag and digest)", text);
		r.tag[0] = 0;
	}
	*ret = r;
	return 0;
}

void reference_text(const struct reference *r, char dst[4700])
{
	static const char *const prefixes[] = { "", "oci:", "oci-archive:", "docker-archive:" };
	const char *digest_mark = r->digest[0] ? "@" : "", *tag_mark = r->tag[0] ? ":" : "";

	if (r->kind == REFERENCE_REGISTRY)
		snprintf(dst, 4700, "%s/%s%s%s%s%s", r->host, r->path, tag_mark, r->tag, digest_mark, r->digest);
	else if (r->kind == REFERENCE_DOCKER_ARCHIVE)
		snprintf(dst, 4700, "%s%s%s%.400s", prefixes[r->kind], r->file, r->name[0] ? ":" : "", r->name);
	else
		snprintf(dst, 4700, "%s%s%s%s%s%s", prefixes[r->kind], r->file, tag_mark, r->tag, digest_mark, r->digest);
}

const char *reference_api_host(const char *host) { return strcmp(host, "docker.io") ? host : "registry-1.docker.io"; }
