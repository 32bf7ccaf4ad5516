/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct args {
	bool all;
	const char *keep;
};

/* "90", "90s", "30m", "24h", "7d" */
static int parse_age(const char *s, uint64_t *ret)
{
	static const struct { char unit; uint64_t seconds; } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { 'w', 7 * 86400 } };
	size_t n = strlen(s);
	uint64_t scale = 1, v;
	char number[16];

	for (size_t i = 0; n && i < sizeof units / sizeof *units; i++)
		if (s[n - 1] == units[i].unit) {
			scale = units[i].seconds;
			n--;
			break;
		}
	if (!n || n >= sizeof number)
		return -EINVAL;
	memcpy(number, s, n);
	number[n] = 0;
	if (text_parse_u64(number, 0, UINT32_MAX, &v))
		return -EINVAL;
	*ret = v * scale;
	return 0;
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Edera__Node__V1__PruneImagesRequest request = EDERA__NODE__V1__PRUNE_IMAGES_REQUEST__INIT;
	Edera__Node__V1__PruneImagesReply *reply _message_ = NULL;
	struct buf out _buf_ = BUF_INIT;
	uint64_t bytes = 0;
	int r;

	request.all = a->all;
	if (a->keep && parse_age(a->keep, &request.keep_newer_than))
		return cli_bad_usage("--keep takes an age such as 30m, 24h or 7d, not '%s'", a->keep);
	r = cli_call(cli, NODE, "PruneImages", &request, &reply, err);
	if (r)
		return r;
	for (size_t i = 0; i < reply->n_removed; i++) {
		bytes += reply->removed[i]->bytes;
		buf_printf(&out, "%s\n", reply->removed[i]->digest);
	}
	cli_print(&out);
	buf_clear(&out);
	text_size(&out, bytes);
	fprintf(stderr, "%zu image%s removed, %s freed\n", reply->n_removed, reply->n_removed == 1 ? "" : "s", (const char *)out.data);
	return 0;
}

static const struct opt options[] = {
	{ "all", 'a', OPT_FLAG, AT(struct args, all), NULL, "also images that have a name, as long as nothing uses them" },
	{ "keep", 0, OPT_STRING, AT(struct args, keep), "AGE", "leave what is younger, e.g. 30m, 24h or 7d" },
};

static const struct example examples[] = {
	{ "protect image prune", "what no name refers to any more" },
	{ "protect image prune --all --keep 7d", NULL },
	{ 0 },
};

const struct command verb_image_prune = {
	.name = "prune", .summary = "Remove images that nothing uses", .about = "The digests of what was removed are printed, and on stderr how much that freed.",
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
