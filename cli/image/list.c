/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image.h"

#include <string.h>

struct args {
	struct list_args list;
};

static const char *first_name(const Edera__Node__V1__Image *i)
{
	return i->n_names ? i->names[0] : "";
}

static int by_name(const void *a, const void *b)
{
	const Edera__Node__V1__Image *x = a, *y = b;
	int r = strcmp(first_name(x), first_name(y));

	return r ? r : strcmp(x->digest, y->digest);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Edera__Node__V1__ListImagesReply *reply _message_ = NULL;
	struct list list _list_ = { 0 };
	int r = image_collect(cli, &reply, &list, err);

	if (r)
		return r;
	list_sort(&list, by_name);
	return list_print(&list, &a->list, &image_view, &edera__node__v1__image__descriptor);
}

static const struct opt options[] = { LIST_OUTPUT(struct args), LIST_SELECTOR(struct args) };

static const struct example examples[] = {
	{ "protect image list", NULL },
	{ "protect image list --selector in_use=false --output json-pretty", NULL },
	{ 0 },
};

const struct command verb_image_list = {
	.name = "list", .summary = "List the images in this host's cache", OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
