/* SPDX-License-Identifier: Apache-2.0 */
/* What the provider says on its standard output. It is sandboxed, and what it says is checked all the same. */
#include "pull.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 4096
#define DEPTH_MAX 8

static const char *const phases[] = { "started", "resolving", "resolved", "config-download", "layer-download", "assemble", "pack", "complete" };
static const char *const layer_phases[] = { "waiting", "downloading", "downloaded", "extracting", "extracted" };

static const char *text_of(json_object *o, const char *key)
{
	json_object *v;

	return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}

static uint64_t number_of(json_object *o, const char *key)
{
	json_object *v;
	int64_t n = json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : 0;

	return n < 0 ? 0 : (uint64_t)n;
}

static uint32_t index_of(const char *text, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(text, names[i]))
			return (uint32_t)i + 1;
	return 1;
}

void pull_report(const struct edera_pull *asked, const struct edera_pull_progress *p)
{
	if (asked->progress)
		asked->progress(asked->user, p);
}

/* Keeps it for those who share the pull. */
static void share(struct edera_pull_line *l, const struct edera_pull_progress *p)
{
	struct edera_pull_layer *copy = p->n_layers ? malloc(p->n_layers * sizeof *copy) : NULL;

	if (copy)
		memcpy(copy, p->layers, p->n_layers * sizeof *copy);
	pthread_mutex_lock(&l->store->lock);
	free(l->shared->layers);
	l->shared->layers = copy;
	l->shared->progress = *p;
	l->shared->progress.layers = copy;
	l->shared->progress.n_layers = copy ? p->n_layers : 0;
	l->shared->version++;
	pthread_cond_broadcast(&l->store->changed);
	pthread_mutex_unlock(&l->store->lock);
}

static void take_progress(struct edera_pull_line *l, json_object *o)
{
	struct edera_pull_progress p = { .size = sizeof p, .layer_size = sizeof(struct edera_pull_layer) };
	_free_ struct edera_pull_layer *layers = NULL;
	json_object *list;

	p.phase = index_of(text_of(o, "phase"), phases, ARRAY_SIZE(phases));
	p.current = number_of(o, "current");
	p.total = number_of(o, "total");
	if (json_object_object_get_ex(o, "layers", &list) && json_object_is_type(list, json_type_array) && json_object_array_length(list) <= LAYERS_MAX)
		layers = calloc(json_object_array_length(list) + 1, sizeof *layers);
	for (size_t i = 0; layers && i < json_object_array_length(list); i++) {
		json_object *e = json_object_array_get_idx(list, i);
		struct edera_pull_layer *y = &layers[p.n_layers];

		if (!json_object_is_type(e, json_type_object) || !text_valid_digest(text_of(e, "id")))
			continue;
		snprintf(y->id, sizeof y->id, "%s", text_of(e, "id"));
		y->phase = index_of(text_of(e, "phase"), layer_phases, ARRAY_SIZE(layer_phases));
		y->current = number_of(e, "current");
		y->total = number_of(e, "total");
		p.n_layers++;
	}
	p.layers = layers;
	share(l, &p);
	pull_report(l->asked, &p);
}

static int base64_digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = c ? strchr(digits, c) : NULL;

	return p ? (int)(p - digits) : -1;
}

static bool decode(const char *text, struct buf *ret)
{
	uint32_t bits = 0;
	int n = 0;

	for (; *text && *text != '='; text++) {
		int d = base64_digit(*text);
		uint8_t byte;

		if (d < 0)
			return false;
		bits = bits << 6 | (uint32_t)d;
		n += 6;
		if (n < 8)
			continue;
		n -= 8;
		byte = (uint8_t)(bits >> n);
		buf_append(ret, &byte, 1);
	}
	return !ret->failed;
}

static void take_result(struct outcome *out, json_object *o)
{
	const char *digest = text_of(o, "digest"), *source = text_of(o, "source_digest");
	json_object *cached, *names;

	if (out->there || !text_valid_digest(digest) || (*source && !text_valid_digest(source)))
		return;
	if (!decode(text_of(o, "manifest"), &out->manifest) || !decode(text_of(o, "config"), &out->config))
		return;
	snprintf(out->digest, sizeof out->digest, "%s", digest);
	snprintf(out->source_digest, sizeof out->source_digest, "%s", source);
	out->cached = json_object_object_get_ex(o, "cached", &cached) && json_object_get_boolean(cached);
	if (json_object_object_get_ex(o, "names", &names) && json_object_is_type(names, json_type_array))
		out->names = json_object_get(names);
	out->there = true;
}

void pull_line(void *user, const char *json, size_t len)
{
	struct edera_pull_line *l = user;
	struct json_tokener *tok = len < INT32_MAX ? json_tokener_new_ex(DEPTH_MAX) : NULL;
	json_object *o = tok ? json_tokener_parse_ex(tok, json, (int)len) : NULL;

	if (o && json_object_is_type(o, json_type_object)) {
		const char *type = text_of(o, "type");

		if (!strcmp(type, "progress"))
			take_progress(l, o);
		else if (!strcmp(type, "result"))
			take_result(&l->outcome, o);
	}
	json_object_put(o);
	if (tok)
		json_tokener_free(tok);
}

void outcome_free(struct outcome *o)
{
	buf_free(&o->manifest);
	buf_free(&o->config);
	json_object_put(o->names);
}
