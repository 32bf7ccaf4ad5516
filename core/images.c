/* SPDX-License-Identifier: Apache-2.0 */
#include "images.h"
#include "base/error.h"
#include "base/log.h"
#include "base/reference.h"
#include "base/text.h"
#include "containerd.h"

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
	if (!r)
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
