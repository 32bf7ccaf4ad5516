/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image.h"
#include "cli/image/fetch.h"
#include "cli/interrupt.h"

#include <string.h>

struct args {
	const char *format, *progress;
	bool overwrite, update, variant;
};

enum progress_mode image_progress_mode(const char *name)
{
	if (!strcmp(name, "none"))
		return PROGRESS_NONE;
	if (!strcmp(name, "bars"))
		return PROGRESS_BARS;
	if (!strcmp(name, "lines"))
		return PROGRESS_LINES;
	if (!strcmp(name, "json"))
		return PROGRESS_JSON;
	return progress_auto(PROGRESS_LINES);
}

void image_print_result(const Protect__Control__V1__OciImageSpec *spec, const char *name)
{
	struct json_object *o = json_object_new_object();
	struct buf out _buf_ = BUF_INIT, word _buf_ = BUF_INIT;

	format_enum_word(&word, &protect__control__v1__oci_image_format__descriptor, (int)spec->format);
	json_object_object_add(o, "type", json_object_new_string("result"));
	json_object_object_add(o, "digest", json_object_new_string(spec->digest));
	json_object_object_add(o, "format", json_object_new_string((const char *)word.data));
	if (name)
		json_object_object_add(o, "reference", json_object_new_string(name));
	format_json(&out, o, false);
	buf_puts(&out, "\n");
	cli_print(&out);
	json_object_put(o);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	struct fetch fetch = { .overwrite = a->overwrite, .update = a->update, .progress = image_progress_mode(a->progress) };
	Protect__Control__V1__PullImageReply *reply _message_ = NULL;
	int r;

	if (a->format)
		fetch.format = image_format(a->format);
	else
		fetch.format = a->variant ? PROTECT__CONTROL__V1__OCI_IMAGE_FORMAT__OCI_IMAGE_FORMAT_DIRECTORY : PROTECT__CONTROL__V1__OCI_IMAGE_FORMAT__OCI_IMAGE_FORMAT_SQUASHFS;
	if (a->variant)
		fetch.variant = operands->v[0];
	else
		fetch.image = operands->v[0];
	r = interrupts_catch(cli, err);
	if (!r)
		r = image_fetch(cli, &fetch, &reply, err);
	if (r == -EINTR)
		return CLI_INTERRUPTED;
	if (r)
		return r;
	if (fetch.progress == PROGRESS_JSON)
		image_print_result(reply->spec, operands->v[0]);
	else
		cli_puts(reply->spec->digest);
	return 0;
}

const char *const image_formats[] = { "squashfs", "erofs", "tar", "directory", NULL };
const char *const image_progress_modes[] = { "auto", "bars", "lines", "json", "none", NULL };

static const struct opt options[] = {
	{ "format", 's', OPT_STRING, AT(struct args, format), "FORMAT", "what to make of it; squashfs if nothing is said, directory for a kernel variant", .choices = image_formats,
	  .alias = "image-format" },
	{ "overwrite-cache", 'o', OPT_FLAG, AT(struct args, overwrite), NULL, "pack it again even if the cache has it; layers that are kept are not fetched again", .alias = "pull-overwrite-cache" },
	{ "update", 'u', OPT_FLAG, AT(struct args, update), NULL, "ask the registry what a tag means now, even if the cache knows it", .alias = "pull-update" },
	{ "variant", 0, OPT_FLAG, AT(struct args, variant), NULL, "IMAGE is the name of a kernel variant", .names = NAMES_VARIANT },
	{ "progress", 0, OPT_STRING, AT(struct args, progress), "HOW", "how to show progress", .def = "auto", .choices = image_progress_modes },
};

static const struct example examples[] = {
	{ "protect image pull docker.io/library/alpine:3.20", NULL },
	{ "protect image pull containerd:ghcr.io/org/app:1.2", "what the kubelet pulled, without pulling it again" },
	{ "protect image pull --progress json ghcr.io/org/app:1.2 | jq .phase", NULL },
	{ 0 },
};

const struct command verb_image_pull = {
	.name = "pull", .summary = "Fetch an image into the cache and print its digest",
	.about = "Progress goes to stderr: bars on a terminal, else a line a phase. With --progress json it goes to stdout as one JSON object a line, the last of "
		 "which has the type \"result\" and the digest. Credentials are those of docker's configuration (~/.docker/config.json or $DOCKER_CONFIG) for that "
		 "registry, credential helpers included; where it has none, the daemon uses its own.\n\nIMAGE is a name as Docker writes it, or the digest (sha256:...) of an image that is in the cache. As containerd:IMAGE it is what "
		 "containerd on the daemon's host knows by that name, and only what containerd lacks comes from the registry; the result is known by the plain name.",
	.operands = "IMAGE", .min = 1, .max = 1, .names = NAMES_IMAGE, OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
