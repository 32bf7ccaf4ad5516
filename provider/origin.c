/* SPDX-License-Identifier: Apache-2.0 */
#include "origin.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static const char *const prefixes[] = {
	[ORIGIN_REGISTRY] = "docker://", [ORIGIN_LAYOUT] = "oci:", [ORIGIN_OCI_ARCHIVE] = "oci-archive:", [ORIGIN_DOCKER_ARCHIVE] = "docker-archive:",
	[ORIGIN_ARCHIVE] = "archive:",
};

static int parse_name(const char *text, const char *name, struct origin *o, struct edera_error *err)
{
	struct reference r;
	int e = reference_parse(name, &r, err);

	if (e)
		return err_wrap(err, "'%.200s'", text);
	reference_format(&r, o->name);
	return 0;
}

/* After "oci:" and the like: a path, and what picks the image in it. A colon counts only after the last slash. */
static int parse_place(const char *text, const char *rest, struct origin *o, struct edera_error *err)
{
	const char *slash = strrchr(rest, '/'), *last = slash ? slash : rest, *at = strrchr(last, '@'), *colon = strchr(last, ':');
	size_t n = strlen(rest);
	int r = 0;

	if (o->kind == ORIGIN_DOCKER_ARCHIVE || o->kind == ORIGIN_ARCHIVE) {
		char name[REFERENCE_CAP];

		if (o->kind == ORIGIN_ARCHIVE && at && text_valid_digest(at + 1)) {
			snprintf(o->digest, sizeof o->digest, "%s", at + 1);
			n = (size_t)(at - rest);
		}
		colon = memchr(rest, ':', n); /* here a reference follows, slashes and all */
		if (colon) {
			if (snprintf(name, sizeof name, "%.*s", (int)(rest + n - colon - 1), colon + 1) >= (int)sizeof name)
				return err_set(err, -ENAMETOOLONG, "'%.200s...' is too long", text);
			n = (size_t)(colon - rest);
			r = parse_name(text, name, o, err);
		}
	} else if (at && text_valid_digest(at + 1)) {
		n = (size_t)(at - rest);
		snprintf(o->digest, sizeof o->digest, "%s", at + 1);
	} else if (colon) {
		n = (size_t)(colon - rest);
		if (!colon[1] || strlen(colon + 1) > ORIGIN_TAG_MAX)
			return err_set(err, -EINVAL, "'%.200s': what follows the last ':' is no tag", text);
		snprintf(o->tag, sizeof o->tag, "%s", colon + 1);
	}
	if (r)
		return r;
	if (n == 0 || n >= sizeof o->file)
		return err_set(err, -EINVAL, "'%.200s' names no %s", text, o->kind == ORIGIN_LAYOUT ? "directory" : "file");
	snprintf(o->file, sizeof o->file, "%.*s", (int)n, rest);
	return 0;
}

int origin_parse(const char *text, struct origin *ret, struct edera_error *err)
{
	struct origin o = { .kind = ORIGIN_REGISTRY };
	int r;

	for (int kind = ORIGIN_LAYOUT; kind <= ORIGIN_ARCHIVE; kind++)
		if (text_starts(text, prefixes[kind])) {
			o.kind = (enum origin_kind)kind;
			r = parse_place(text, text + strlen(prefixes[kind]), &o, err);
			if (!r)
				*ret = o;
			return r;
		}
	if (text_starts(text, prefixes[ORIGIN_REGISTRY]))
		text += strlen(prefixes[ORIGIN_REGISTRY]);
	r = reference_parse(text, &o.image, err);
	if (!r)
		*ret = o;
	return r;
}

int origin_parse_repository(const char *text, struct origin *ret, struct edera_error *err)
{
	struct origin o = { .kind = ORIGIN_REGISTRY };
	int r = reference_parse_repository(text, &o.image, err);

	if (!r)
		*ret = o;
	return r;
}

bool origin_is_stream(const struct origin *o) { return o->kind >= ORIGIN_OCI_ARCHIVE && !strcmp(o->file, "-"); }

void origin_text(const struct origin *o, char dst[ORIGIN_CAP])
{
	if (o->kind == ORIGIN_REGISTRY)
		reference_format(&o->image, dst);
	else
		snprintf(dst, ORIGIN_CAP, "%s%s%s%s%s%s%s", prefixes[o->kind], o->file, o->tag[0] || o->name[0] ? ":" : "", o->tag, o->name, o->digest[0] ? "@" : "",
			 o->digest);
}
