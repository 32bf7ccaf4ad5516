/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image.h"
#include "base/cleanup.h"
#include "base/reference.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

typedef Edera__Node__V1__Image Image;

void image_age(struct buf *b, int64_t seconds)
{
	static const struct { int64_t seconds; const char *unit; } units[] = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" }, { 1, "second" } };

	if (seconds < 0)
		seconds = 0;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		int64_t n = seconds / units[i].seconds;

		/* "36 hours" says more than "1 day". */
		if (n >= 2 || i + 1 == ARRAY_SIZE(units)) {
			buf_printf(b, "%" PRId64 " %s%s", n, units[i].unit, n == 1 ? "" : "s");
			return;
		}
	}
}

Protect__Control__V1__OciImageFormat image_format(const char *name)
{
	const ProtobufCEnumDescriptor *d = &protect__control__v1__oci_image_format__descriptor;

	for (unsigned i = 0; i < d->n_values; i++) {
		struct buf word _buf_ = BUF_INIT;

		format_enum_word(&word, d, d->values[i].value);
		if (!strcmp((const char *)word.data, name))
			return (Protect__Control__V1__OciImageFormat)d->values[i].value;
	}
	return PROTECT__CONTROL__V1__OCI_IMAGE_FORMAT__OCI_IMAGE_FORMAT_UNKNOWN;
}

static void cell_digest(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Image *)m)->digest);
}

/* As much as one needs to tell images apart and to name one in `image remove`. */
static void cell_short_digest(const void *m, const void *context, struct buf *b)
{
	const char *digest = ((const Image *)m)->digest, *colon = strchr(digest, ':');

	buf_printf(b, "%.*s", colon ? (int)(colon - digest) + 13 : 12, digest);
}

static void cell_names(const void *m, const void *context, struct buf *b)
{
	const Image *i = m;

	for (size_t k = 0; k < i->n_names; k++)
		buf_printf(b, "%s%s", k ? ", " : "", i->names[k]);
}

static void cell_format(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Image *)m)->format);
}

static void cell_size(const void *m, const void *context, struct buf *b)
{
	const Image *i = m;

	text_size(b, i->bytes + i->layers_bytes);
}

static void cell_bytes(const void *m, const void *context, struct buf *b)
{
	buf_printf(b, "%" PRIu64, ((const Image *)m)->bytes);
}

static void cell_age(const void *m, const void *context, struct buf *b)
{
	image_age(b, time(NULL) - ((const Image *)m)->created);
}

static void cell_created(const void *m, const void *context, struct buf *b)
{
	buf_printf(b, "%" PRId64, ((const Image *)m)->created);
}

static void cell_in_use(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Image *)m)->in_use ? "yes" : "no");
}

static const struct column columns[] = {
	{ .title = "digest", .cell = cell_short_digest },
	{ .title = "names", .cell = cell_names, .missing = "n/a" },
	{ .title = "format", .cell = cell_format },
	{ .title = "size", .cell = cell_size },
	{ .title = "age", .cell = cell_age },
	{ .title = "in use", .cell = cell_in_use },
};

static const struct column simple[] = {
	{ .cell = cell_digest }, { .cell = cell_format }, { .cell = cell_bytes }, { .cell = cell_created }, { .cell = cell_in_use }, { .cell = cell_names },
};

const struct list_view image_view = { columns, ARRAY_SIZE(columns), simple, ARRAY_SIZE(simple), "no images have been pulled", NULL };

/* As it stands there, or as Docker reads it: "alpine" is docker.io/library/alpine:latest. */
static bool has_name(const Image *i, const char *wanted)
{
	char full[REFERENCE_CAP] = "";
	struct reference reference;

	if (!reference_parse(wanted, &reference, NULL))
		reference_format(&reference, full);
	for (size_t k = 0; k < i->n_names; k++)
		if (!strcmp(i->names[k], wanted) || !strcmp(i->names[k], full))
			return true;
	return false;
}

/* A digest or its beginning, with or without the algorithm; shorter than six digits is too easily another image's. */
static bool begins_digest(const char *digest, const char *wanted)
{
	const char *colon = strchr(digest, ':');
	size_t n = strlen(wanted), algorithm = colon ? (size_t)(colon - digest) + 1 : 0;

	if (!strncmp(wanted, digest, algorithm) && algorithm)
		return n >= algorithm + IMAGE_DIGITS_MIN && !strncmp(digest, wanted, n);
	return n >= IMAGE_DIGITS_MIN && !strncmp(digest + algorithm, wanted, n);
}

bool image_is(const Edera__Node__V1__Image *i, const char *wanted) { return has_name(i, wanted) || begins_digest(i->digest, wanted); }

int image_collect(struct cli *cli, Edera__Node__V1__ListImagesReply **ret, struct list *list, struct edera_error *err)
{
	Edera__Node__V1__ListImagesRequest request = EDERA__NODE__V1__LIST_IMAGES_REQUEST__INIT;
	int r = cli_call(cli, NODE, "ListImages", &request, ret, err);

	for (size_t i = 0; !r && i < (*ret)->n_images; i++)
		list_add(list, (*ret)->images[i]);
	return r;
}
