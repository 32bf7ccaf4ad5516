/* SPDX-License-Identifier: Apache-2.0 */
#include "images.h"
#include "base/error.h"
#include "base/log.h"
#include "base/reference.h"
#include "base/text.h"
#include "containerd.h"

#include <string.h>

#define DIGITS_MIN 6
#define OP(p, op) PLUGIN_OP(p, struct edera_image_store_ops, op)

static int store(const struct plugin_host *plugins, const struct plugin_provider **ret, struct edera_error *err)
{
	*ret = plugin_host_image_store(plugins);
	return *ret ? 0 : err_set(err, -ENODEV, "no image store plugin is loaded");
}

static int check_digest(const char *digest, struct edera_error *err)
{
	return text_valid_digest(digest) ? 0 : err_set(err, -EINVAL, "'%.140s' is not a digest; it should look like sha256:<64 hex digits>", digest);
}

/* What "containerd:" stood before is given a digest, if containerd has one for it: the image store asks for that and nothing else. Else it
 * stays a name, which the registry knows. */
static int ask_containerd(const struct plugin_host *plugins, struct edera_pull *pull, char name[REFERENCE_CAP], char digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	_conf_ struct conf *c = plugin_host_conf(plugins);
	struct edera_error why = EDERA_ERROR_INIT;
	struct reference ref;
	int r = reference_parse(pull->reference, &ref, err);

	if (r || ref.digest[0])
		return r;
	reference_format(&ref, name);
	if (containerd_resolve(c, name, digest, &why))
		log_warning("asking the registry, as containerd does not say what an image is", "image", name, "error", why.msg, NULL);
	else
		pull->digest = digest;
	return 0;
}

/* A digest by itself, or its beginning as `image list` shows it ("sha256:" and six digits or more). */
static bool is_digest(const char *reference)
{
	bool algorithm = text_starts(reference, "sha256:") || text_starts(reference, "sha512:");
	size_t n = strlen(reference);

	return algorithm && n >= 7 + DIGITS_MIN && strspn(reference + 7, "0123456789abcdef") == n - 7;
}

struct by_digest {
	const struct edera_pull *asked;
	char found[EDERA_DIGEST_MAX];
	bool several;
};

static int match_digest(void *user, const struct edera_image_info *i)
{
	struct by_digest *b = user;

	if (i->format != b->asked->format || (!text_starts(i->digest, b->asked->reference) && !text_starts(i->source_digest, b->asked->reference)))
		return 0;
	b->several |= b->found[0] && strcmp(b->found, i->digest);
	snprintf(b->found, sizeof b->found, "%s", i->digest);
	return !strcmp(i->digest, b->asked->reference);
}

/* Only the cache can know it. */
static int find_digest(const struct plugin_provider *p, const struct edera_call *call, const struct edera_pull *asked, char ret_digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	struct by_digest b = { .asked = asked };
	int r = OP(p, list)(p->inst, call, match_digest, &b, err);

	if (r < 0)
		return r;
	if (asked->flags & EDERA_PULL_OVERWRITE)
		return err_set(err, -EINVAL, "a digest alone names no registry to fetch it from; write NAME@DIGEST");
	if (!b.found[0])
		return err_set(err, -ENOENT, "no image in the cache has this digest as %s, and a digest alone names no registry to fetch it from; write NAME@DIGEST",
			       images_format_name(asked->format));
	if (!r && b.several)
		return err_set(err, -EINVAL, "that is more than one image of the cache; give more of the digest");
	strcpy(ret_digest, b.found);
	return 0;
}

int images_pull(const struct plugin_host *plugins, const struct edera_call *call, const struct edera_pull *asked, char ret_digest[EDERA_DIGEST_MAX], struct edera_error *err)
{
	char name[REFERENCE_CAP], digest[EDERA_DIGEST_MAX];
	struct edera_pull pull = *asked;
	const struct plugin_provider *p;
	int r = store(plugins, &p, err);

	if (r)
		return r;
	if (reference_from_containerd(&pull.reference))
		r = ask_containerd(plugins, &pull, name, digest, err);
	if (!r && is_digest(pull.reference))
		r = find_digest(p, call, &pull, ret_digest, err);
	else if (!r)
		r = OP(p, pull)(p->inst, call, &pull, ret_digest, err);
	return r ? err_wrap(err, "cannot pull '%.200s'", asked->reference) : 0;
}

int images_import(const struct plugin_host *plugins, const struct edera_call *call, const struct edera_import *import, char ret_digest[EDERA_DIGEST_MAX],
		  struct edera_error *err)
{
	const struct plugin_provider *p;
	int r = store(plugins, &p, err);

	if (r)
		return r;
	if (!OP(p, import))
		return err_set(err, -ENOTSUP, "the image store cannot import images");
	return OP(p, import)(p->inst, call, import, ret_digest, err);
}

int images_list(const struct plugin_host *plugins, const struct edera_call *call, int (*cb)(void *, const struct edera_image_info *), void *user, struct edera_error *err)
{
	const struct plugin_provider *p;
	int r = store(plugins, &p, err);

	return r ? r : OP(p, list)(p->inst, call, cb, user, err);
}

int images_remove(const struct plugin_host *plugins, const struct edera_call *call, const char *digest, uint32_t format, bool *ret_removed, struct edera_error *err)
{
	const struct plugin_provider *p;
	int removed = 0, r = check_digest(digest, err);

	if (r || (r = store(plugins, &p, err)) || (r = OP(p, remove)(p->inst, call, digest, format, &removed, err)))
		return r;
	*ret_removed = removed;
	return 0;
}

int images_file(const struct plugin_host *plugins, const struct edera_call *call, const char *digest, uint32_t format, enum edera_image_file which, char ret_path[PATH_CAP],
		struct edera_error *err)
{
	const struct plugin_provider *p;
	int r = check_digest(digest, err);

	if (r || (r = store(plugins, &p, err)))
		return r;
	return OP(p, file)(p->inst, call, digest, format, which, ret_path, err);
}

int images_read(const struct plugin_host *plugins, const struct edera_call *call, const char *digest, uint32_t format, enum edera_image_file which, struct buf *ret,
		struct edera_error *err)
{
	char path[PATH_CAP];
	int r = images_file(plugins, call, digest, format, which, path, err);

	return r ? r : path_read_file(path, IMAGE_JSON_MAX, ret, err);
}

const char *images_format_name(uint32_t format)
{
	static const char *const names[] = { "unknown", "squashfs", "erofs", "tar", "directory" };

	return format < sizeof names / sizeof names[0] ? names[format] : "unknown";
}
