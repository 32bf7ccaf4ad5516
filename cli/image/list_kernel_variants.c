/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image.h"
#include "base/cleanup.h"

struct args {
	struct list_args list;
	bool verbose, refresh;
};

/* The public protocol's KernelVariant and ours differ in what they know beyond name and image. */
typedef Protect__Control__V1__KernelVariant Variant;
typedef Edera__Node__V1__KernelVariant VerboseVariant;

static void cell_name(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Variant *)m)->name);
}

static void cell_image(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Variant *)m)->image);
}

static void cell_verbose_name(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const VerboseVariant *)m)->name);
}

static void cell_verbose_image(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const VerboseVariant *)m)->image);
}

static void cell_source(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const VerboseVariant *)m)->source);
}

static void cell_digest(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const VerboseVariant *)m)->digest);
}

#define EMPTY "no kernel variants are configured"

static const struct column columns[] = { { .title = "variant", .cell = cell_name }, { .title = "image", .cell = cell_image } };
static const struct list_view view = { columns, ARRAY_SIZE(columns), NULL, 0, EMPTY, NULL };

static const struct column verbose_columns[] = {
	{ .title = "variant", .cell = cell_verbose_name },
	{ .title = "image", .cell = cell_verbose_image },
	{ .title = "source", .cell = cell_source, .missing = "n/a" },
	{ .title = "digest", .cell = cell_digest, .missing = "n/a" },
};
static const struct list_view verbose_view = { verbose_columns, ARRAY_SIZE(verbose_columns), NULL, 0, EMPTY, NULL };

static int run_verbose(struct cli *cli, const struct args *a, Edera__Node__V1__ListKernelVariantsReply *reply)
{
	struct list list _list_ = { 0 };

	for (size_t i = 0; i < reply->n_variants; i++)
		list_add(&list, reply->variants[i]);
	return list_print(&list, &a->list, &verbose_view, &edera__node__v1__kernel_variant__descriptor);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__ListKernelVariantsRequest request = PROTECT__CONTROL__V1__LIST_KERNEL_VARIANTS_REQUEST__INIT;
	Edera__Node__V1__ListKernelVariantsRequest node_request = EDERA__NODE__V1__LIST_KERNEL_VARIANTS_REQUEST__INIT;
	Protect__Control__V1__ListKernelVariantsReply *reply _message_ = NULL;
	Edera__Node__V1__ListKernelVariantsReply *node_reply _message_ = NULL;
	struct list list _list_ = { 0 };
	int r = 0;

	node_request.refresh = a->refresh;
	if (a->verbose || a->refresh)
		r = cli_call(cli, NODE, "ListKernelVariants", &node_request, &node_reply, err);
	if (r || a->verbose)
		return r ? r : run_verbose(cli, a, node_reply);
	r = cli_call(cli, CONTROL, "ListKernelVariants", &request, &reply, err);
	if (r)
		return r;
	for (size_t i = 0; i < reply->n_variants; i++)
		list_add(&list, reply->variants[i]);
	return list_print(&list, &a->list, &view, &protect__control__v1__kernel_variant__descriptor);
}

static const struct opt options[] = {
	LIST_OUTPUT(struct args), LIST_SELECTOR(struct args),
	{ "verbose", 'v', OPT_FLAG, AT(struct args, verbose), NULL, "also say which source offers a variant, and the digest it is pinned to" },
	{ "refresh", 0, OPT_FLAG, AT(struct args, refresh), NULL, "ask the sources again instead of using what they said last" },
};

static const struct example examples[] = {
	{ "protect image list-kernel-variants", NULL },
	{ "protect image list-kernel-variants --output json-pretty", NULL },
	{ "protect zone launch --name zone-gpu --kernel-variant nvidia", "use one" },
	{ 0 },
};

const struct command verb_image_list_kernel_variants = {
	.name = "list-kernel-variants", .summary = "List the kernels that zones can be launched with by name",
	.about = "The names are what 'zone launch --kernel-variant' and the annotation dev.edera/kernel-variant take. They come from the section "
		 "[zone.kernel-variants] of the daemon's configuration and from the registries it names.",
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
