/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image.h"

#include <string.h>

struct args {
	const char *format;
};

/* Leaves the images meant; all must be one image, if in several formats. */
static int choose(struct list *list, const char *wanted, const char *format, struct edera_error *err)
{
	const Edera__Node__V1__Image *first = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		const Edera__Node__V1__Image *image = list->rows[i];

		if (!image_is(image, wanted))
			continue;
		if (format && strcmp(format, image->format))
			continue;
		if (first && strcmp(first->digest, image->digest))
			return err_set(err, -EINVAL, "'%s' is more than one image: %s and %s; give more of the digest", wanted, first->digest, image->digest);
		first = list->rows[kept++] = image;
	}
	list->n = kept;
	if (!kept && strlen(wanted) < IMAGE_DIGITS_MIN && strspn(wanted, "0123456789abcdef") == strlen(wanted))
		return err_set(err, -ENOENT, "there is no image '%s' in the cache, and of a digest it takes six digits or more", wanted);
	return kept ? 0 : err_set(err, -ENOENT, "there is no image '%s' in the cache; 'protect image list' shows those there are", wanted);
}

static int remove_one(struct cli *cli, const Edera__Node__V1__Image *image, struct edera_error *err)
{
	Protect__Control__V1__RemoveImageRequest request = PROTECT__CONTROL__V1__REMOVE_IMAGE_REQUEST__INIT;
	Protect__Control__V1__RemoveImageReply *reply _message_ = NULL;
	int r;

	request.digest = image->digest;
	request.format = image_format(image->format);
	r = cli_call(cli, CONTROL, "RemoveImage", &request, &reply, err);
	if (r)
		return r;
	if (!reply->removed)
		return err_set(err, -ENOENT, "the image '%s' (%s) was not removed: it is gone already", image->digest, image->format);
	cli_puts(image->digest);
	return 0;
}

static int remove_named(struct cli *cli, const char *wanted, const char *format, struct edera_error *err)
{
	Edera__Node__V1__ListImagesReply *reply _message_ = NULL;
	struct list list _list_ = { 0 };
	int r = image_collect(cli, &reply, &list, err);

	if (!r)
		r = choose(&list, wanted, format, err);
	for (size_t k = 0; !r && k < list.n; k++)
		r = remove_one(cli, list.rows[k], err);
	return r;
}

/* One that cannot go does not keep the others. */
static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	int failed = 0;

	for (size_t i = 0; i < operands->n; i++) {
		struct edera_error why = EDERA_ERROR_INIT;

		if (!remove_named(cli, operands->v[i], a->format, &why))
			continue;
		cli_warn("%s", why.msg);
		failed = 1;
	}
	return failed;
}

static const struct opt options[] = {
	{ "format", 's', OPT_STRING, AT(struct args, format), "FORMAT", "only the copy in this format", .choices = image_formats },
};

static const struct example examples[] = {
	{ "protect image remove sha256:4bcff63911fc", NULL },
	{ "protect image remove docker.io/library/alpine:3.20", NULL },
	{ 0 },
};

const struct command verb_image_remove = {
	.name = "remove", .summary = "Remove images from the cache",
	.about = "IMAGE is a digest, six or more digits of its beginning, or a name. An image that a zone or a workload uses is not removed; the others that are named are. "
		 "The digests of those that were removed are printed.",
	.operands = "IMAGE...", .min = 1, .max = ANY, .names = NAMES_IMAGE, OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
