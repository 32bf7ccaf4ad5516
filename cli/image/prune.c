/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/message.h"

#include <fnmatch.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>

struct args {
	bool all, dry_run;
	struct strings keep;
};

struct unit {
	const char *name;
	uint64_t scale;
};

/* "12" and a unit of the list, "12 days" too; false if it is not that. */
static bool parse_amount(const char *s, const struct unit *units, int (*compare)(const char *, const char *), uint64_t *ret)
{
	size_t digits = strspn(s, "0123456789");
	const char *unit = s + digits + strspn(s + digits, " ");
	char number[16];
	uint64_t v;

	if (!digits || digits >= sizeof number)
		return false;
	memcpy(number, s, digits);
	number[digits] = 0;
	if (text_parse_u64(number, 0, UINT32_MAX, &v))
		return false;
	for (; units->name; units++)
		if (!compare(unit, units->name) && v <= UINT64_MAX / units->scale) {
			*ret = v * units->scale;
			return true;
		}
	return false;
}

/* Of two amounts of a kind, the one that keeps more counts. */
static bool keep_amount(Edera__Node__V1__PruneImagesRequest *q, const char *what)
{
	static const struct unit none[] = { { "", 1 }, { 0 } };
	static const struct unit ages[] = { { "s", 1 }, { "m", 60 }, { "min", 60 }, { "h", 3600 }, { "hour", 3600 }, { "hours", 3600 }, { "d", 86400 }, { "day", 86400 },
					    { "days", 86400 }, { "w", 7 * 86400 }, { "week", 7 * 86400 }, { "weeks", 7 * 86400 }, { 0 } };
	static const struct unit sizes[] = { { "K", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 }, { "T", 1ull << 40 }, { "KB", 1 << 10 }, { "MB", 1 << 20 }, { "GB", 1 << 30 },
					     { "TB", 1ull << 40 }, { "Ki", 1 << 10 }, { "Mi", 1 << 20 }, { "Gi", 1 << 30 }, { "Ti", 1ull << 40 }, { "KiB", 1 << 10 },
					     { "MiB", 1 << 20 }, { "GiB", 1 << 30 }, { "TiB", 1ull << 40 }, { 0 } };
	uint64_t v;

	if (parse_amount(what, none, strcmp, &v))
		q->keep_count = MAX(q->keep_count, (uint32_t)v);
	else if (parse_amount(what, ages, strcmp, &v)) /* 5m are minutes, 5M is a size */
		q->keep_newer_than = MAX(q->keep_newer_than, v);
	else if (parse_amount(what, sizes, strcasecmp, &v))
		q->keep_bytes = MAX(q->keep_bytes, v);
	else
		return false;
	return true;
}

static bool matches(const Edera__Node__V1__Image *i, const char *pattern)
{
	if (!fnmatch(pattern, i->digest, 0))
		return true;
	for (size_t k = 0; k < i->n_names; k++)
		if (!fnmatch(pattern, i->names[k], 0))
			return true;
	return false;
}

/* What no image has would protect nothing, so it is an error. The daemon is told a pattern as it is, else the digests it stands for. */
static int keep_named(Edera__Node__V1__PruneImagesRequest *q, const struct list *images, const char *what, struct edera_error *err)
{
	bool pattern = strpbrk(what, "*?["), found = false;

	for (size_t i = 0; i < images->n; i++) {
		const Edera__Node__V1__Image *image = images->rows[i];

		if (pattern ? !matches(image, what) : !image_is(image, what))
			continue;
		if (!pattern || !found)
			message_add_string(&q->keep_names, &q->n_keep_names, pattern ? what : image->digest);
		found = true;
	}
	if (found)
		return 0;
	if (!pattern && strspn(what, "0123456789"))
		return cli_bad_usage("--keep '%s' is no age (30m, 24h, 7d, 2w), no size (500MB, 10GiB), no number, and no image has that name or digest; nothing was removed", what);
	return err_set(err, -ENOENT, "no image %s '%s' (--keep); nothing was removed", pattern ? "matches" : "is named", what);
}

static int keep(struct cli *cli, Edera__Node__V1__PruneImagesRequest *q, const struct strings *what, struct edera_error *err)
{
	Edera__Node__V1__ListImagesReply *reply _message_ = NULL;
	struct list images _list_ = { 0 };
	int r = 0;

	for (size_t i = 0; i < what->n && !r; i++) {
		if (!*what->v[i])
			return cli_bad_usage("--keep takes an age (7d), a size (10GiB), a number of images (3) or a name");
		if (keep_amount(q, what->v[i]))
			continue;
		if (!reply)
			r = image_collect(cli, &reply, &images, err);
		if (!r)
			r = keep_named(q, &images, what->v[i], err);
	}
	return r;
}

static void print(const Edera__Node__V1__PruneImagesReply *reply, bool dry_run)
{
	struct buf out _buf_ = BUF_INIT;

	for (size_t i = 0; i < reply->n_removed; i++)
		buf_printf(&out, "%s\n", reply->removed[i]->digest);
	cli_print(&out);
	buf_clear(&out);
	text_size(&out, reply->freed);
	fprintf(stderr, "%zu image%s %sremoved, %s freed\n", reply->n_removed, reply->n_removed == 1 ? "" : "s", dry_run ? "would be " : "", (const char *)out.data);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	Edera__Node__V1__PruneImagesRequest *request _message_ = message_new(&edera__node__v1__prune_images_request__descriptor);
	Edera__Node__V1__PruneImagesReply *reply _message_ = NULL;
	const struct args *a = args;
	int r;

	request->all = a->all;
	request->dry_run = a->dry_run;
	r = keep(cli, request, &a->keep, err);
	if (!r)
		r = cli_call(cli, NODE, "PruneImages", request, &reply, err);
	if (!r)
		print(reply, a->dry_run);
	return r;
}

static const struct opt options[] = {
	{ "all", 'a', OPT_FLAG, AT(struct args, all), NULL, "also images that have a name, as long as nothing uses them" },
	{ "keep", 'k', OPT_LIST, AT(struct args, keep), "WHAT", "leave what is younger than an age (30m, 24h, 7d), as many of the newest (3), the newest that fit in a size (10GiB), or what has a name or pattern" },
	{ "dry-run", 'n', OPT_FLAG, AT(struct args, dry_run), NULL, "only say what would be removed" },
};

static const struct example examples[] = {
	{ "protect image prune", "what no name refers to any more" },
	{ "protect image prune --all --keep 7d", "what nothing uses, but for what came within a week" },
	{ "protect image prune --all --keep 10GiB --keep 'docker.io/library/*' --dry-run", NULL },
	{ 0 },
};

const struct command verb_image_prune = {
	.name = "prune", .summary = "Remove images that nothing uses",
	.about = "An image without a name is one whose tag means another image now, or that was imported without one. With --all, those with a name are removed too, if no zone or workload uses them. "
		 "What --keep says stays in any case; given twice, both stay.\n\n"
		 "The digests of what was removed are printed, and on stderr how much that freed.",
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
