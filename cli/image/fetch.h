/* SPDX-License-Identifier: Apache-2.0 */
/* PullImage with its progress, for every verb that needs an image. */
#ifndef CLI_IMAGE_FETCH_H
#define CLI_IMAGE_FETCH_H

#include "cli/cli.h"
#include "cli/progress.h"

struct fetch {
	const char *image;   /* a reference, or NULL */
	const char *variant; /* else: the name of a kernel variant */
	Protect__Control__V1__OciImageFormat format;
	bool overwrite, update;
	enum progress_mode progress;
};

/* What is added to a verb's options. */
struct fetch_args {
	bool overwrite, update;
};
#define FETCH_OPTIONS(type) \
	{ "pull-overwrite-cache", 0, OPT_FLAG, AT(type, fetch.overwrite), NULL, "pack images again even if the cache has them; layers that are kept are not fetched again" }, \
	{ "pull-update", 0, OPT_FLAG, AT(type, fetch.update), NULL, "ask the registry what a tag means now, even if the cache knows it" }

/* *ret is what the daemon says it is now: digest and format. Stops with -EINTR on an interrupt where those are caught. */
int image_fetch(struct cli *, const struct fetch *, Protect__Control__V1__PullImageReply **ret, struct edera_error *);

#endif
