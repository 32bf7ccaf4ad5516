/* SPDX-License-Identifier: Apache-2.0 */
/* Images that come as archives. The archive itself is only ever looked at by the provider. */
#include "pull.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

/* In canonical form; "" stays "". */
static int check_name(const char *asked, char dst[REFERENCE_CAP], struct edera_error *err)
{
	struct reference ref;
	int r;

	dst[0] = 0;
	if (!*asked)
		return 0;
	r = reference_parse(asked, &ref, err);
	if (!r && ref.digest[0])
		r = err_set(err, -EINVAL, "'%.300s' cannot be an image's name: it has a digest in it", asked);
	if (!r)
		reference_format(&ref, dst);
	return r;
}

static int give_name(struct store *s, const char *name, uint32_t format, const char *digest, struct edera_error *err)
{
	int r;

	pthread_mutex_lock(&s->lock);
	r = names_set_imported(&s->names, name, format, digest, err);
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* What the archive calls it; the provider read that, so it is checked. */
static int give_names(struct store *s, const struct outcome *o, uint32_t format, struct edera_error *err)
{
	char name[REFERENCE_CAP];
	int r = 0;

	for (size_t i = 0; o->names && i < json_object_array_length(o->names) && !r; i++) {
		json_object *text = json_object_array_get_idx(o->names, i);

		if (json_object_is_type(text, json_type_string) && !check_name(json_object_get_string(text), name, NULL) && name[0])
			r = give_name(s, name, format, o->digest, err);
	}
	return r;
}

static int from_archive(struct store *s, const struct edera_call *call, const struct edera_import *asked, const char *name, char ret_digest[EDERA_DIGEST_MAX],
			struct edera_error *err)
{
	struct edera_pull pull = { .size = sizeof pull, .format = asked->format, .flags = asked->flags & EDERA_PULL_OVERWRITE, .progress = asked->progress, .user = asked->user };
	struct pull alone = { .format = asked->format };
	struct edera_pull_line l = { .asked = &pull, .store = s, .shared = &alone, .import = true, .archive_fd = asked->archive_fd, .expected = asked->digest };
	_free_ char *operand = NULL;
	int r;

	if (asprintf(&operand, "archive:-%s%s%s%s", *name ? ":" : "", name, *asked->digest ? "@" : "", asked->digest) < 0)
		return err_errno(err, -ENOMEM, "cannot read an archive");
	pull.reference = operand;
	r = pull_run(&l, call, err);
	if (!r)
		r = *name ? give_name(s, name, asked->format, alone.digest, err) : give_names(s, &l.outcome, asked->format, err);
	if (!r)
		strcpy(ret_digest, alone.digest);
	outcome_free(&l.outcome);
	free(alone.layers);
	return r;
}

int store_import(void *inst, const struct edera_call *call, const struct edera_import *asked, char *ret_digest, struct edera_error *err)
{
	struct store *s = inst;
	char name[REFERENCE_CAP], found[EDERA_DIGEST_MAX];
	int r = pull_check_format(asked->format, err);

	if (!r)
		r = check_name(asked->name, name, err);
	if (!r && *asked->digest && !text_valid_digest(asked->digest))
		r = err_set(err, -EINVAL, "'%.150s' is not a digest", asked->digest);
	if (r)
		return r;
	if (*asked->digest && !(asked->flags & EDERA_PULL_OVERWRITE) && pull_find(s, asked->digest, asked->format, found)) {
		struct edera_pull pull = { .size = sizeof pull, .progress = asked->progress, .user = asked->user };

		r = name[0] ? give_name(s, name, asked->format, found, err) : 0;
		if (r)
			return r;
		pull_report(&pull, &(struct edera_pull_progress){ .size = sizeof(struct edera_pull_progress), .phase = 8, .layer_size = sizeof(struct edera_pull_layer) });
		strcpy(ret_digest, found);
		return 0;
	}
	if (asked->archive_fd < 0)
		return err_set(err, -ENOENT, "the image %s is not in the cache", *asked->digest ? asked->digest : name);
	return from_archive(s, call, asked, name, ret_digest, err);
}
