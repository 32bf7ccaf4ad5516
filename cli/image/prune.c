/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image.h"
#include "base/cleanup.h"
#include "base/reference.h"
#include "base/text.h"
#include "cli/message.h"

#include <string.h>

struct args {
	bool all, dry_run;
	struct strings keep;
};

struct unit {
	const char *name;
	uint64_t scale;
};

/* "12" and a unit of the list; false if it is not that. */
static bool parse_amount(const char *s, const struct unit *units, size_t n, uint64_t *ret)
{
	size_t digits = strspn(s, "0123456789");
	char number[16];
	uint64_t v;

	if (!digits || digits >= sizeof number)
		return false;
	memcpy(number, s, digits);
	number[digits] = 0;
	if (text_parse_u64(number, 0, UINT32_MAX, &v))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(s + digits, units[i].name)) {
			*ret = v * units[i].scale;
			return true;
		}
	return false;
}

/* A name is completed as Docker does it, a pattern and everything else taken as it is. */
static void keep_name(Edera__Node__V1__PruneImagesRequest *q, const char *name)
{
	char full[REFERENCE_CAP];
	struct reference reference;

	if (!strpbrk(name, "*?[") && !text_valid_digest(name) && !reference_parse(name, &reference, NULL)) {
		reference_format(&reference, full);
		name = full;
	}
	message_add_string(&q->keep_names, &q->n_keep_names, name);
}

static int keep(Edera__Node__V1__PruneImagesRequest *q, const char *what)
{
	static const struct unit ages[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 }, { "w", 7 * 86400 } };
	static const struct unit sizes[] = { { "K", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 }, { "T", 1ull << 40 }, { "KB", 1 << 10 }, { "MB", 1 << 20 }, { "GB", 1 << 30 },
					     { "TB", 1ull << 40 }, { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 }, { "TiB", 1ull << 40 } };
	static const struct unit none[] = { { "", 1 } };
	uint64_t count;

	if (!*what)
		return cli_bad_usage("--keep takes an age (7d), a size (10GiB), a number of images (3) or a name");
	if (parse_amount(what, none, 1, &count))
		q->keep_count = (uint32_t)count;
	else if (!parse_amount(what, ages, ARRAY_SIZE(ages), &q->keep_newer_than) && !parse_amount(what, sizes, ARRAY_SIZE(sizes), &q->keep_bytes))
		keep_name(q, what);
	return 0;
}

static void print(const Edera__Node__V1__PruneImagesReply *reply, bool dry_run)
{
	struct buf out _buf_ = BUF_INIT;
	uint64_t bytes = 0;

	for (size_t i = 0; i < reply->n_removed; i++) {
		bytes += reply->removed[i]->bytes;
		buf_printf(&out, "%s\n", reply->removed[i]->digest);
	}
	cli_print(&out);
	buf_clear(&out);
	text_size(&out, bytes);
	fprintf(stderr, "%zu image%s %sremoved, %s freed\n", reply->n_removed, reply->n_removed == 1 ? "" : "s", dry_run ? "would be " : "", (const char *)out.data);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	Edera__Node__V1__PruneImagesRequest *request _message_ = message_new(&edera__node__v1__prune_images_request__descriptor);
	Edera__Node__V1__PruneImagesReply *reply _message_ = NULL;
	const struct args *a = args;
	int r = 0;

	request->all = a->all;
	request->dry_run = a->dry_run;
	for (size_t i = 0; i < a->keep.n && !r; i++)
		r = keep(request, a->keep.v[i]);
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
	.about = "An image without a name is one whose tag means another image now. With --all, those with a name are removed too, if no zone or workload uses them. "
		 "What --keep says stays in any case.\n\n"
		 "The digests of what was removed are printed, and on stderr how much that freed.",
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
