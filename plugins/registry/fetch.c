/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a registry, through the daemon's provider: the tags of a repository, then each tag's annotations, a few at a time. */
#include "registry.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#define INSPECTORS 4

static void json_put(struct json_object **o) { json_object_put(*o); }
#define _json_ _cleanup_(json_put)

static struct json_object *parse(const char *json, size_t len, const char *type)
{
	struct json_tokener *t = json_tokener_new_ex(8);
	struct json_object *o = t ? json_tokener_parse_ex(t, json, (int)len) : NULL;
	const char *is = json_object_is_type(o, json_type_object) ? json_object_get_string(json_object_object_get(o, "type")) : NULL;

	if (t)
		json_tokener_free(t);
	if (is && !strcmp(is, type))
		return o;
	json_object_put(o);
	return NULL;
}

struct tags {
	const struct settings *settings;
	char **list;
	size_t n;
	bool answered, failed;
};

static void on_tags(void *user, const char *line, size_t len)
{
	_json_ struct json_object *o = parse(line, len, "tags");
	struct json_object *all = o ? json_object_object_get(o, "tags") : NULL;
	struct tags *t = user;

	if (!json_object_is_type(all, json_type_array) || t->answered)
		return;
	t->answered = true;
	for (size_t i = 0; i < json_object_array_length(all) && i < MAX_TAGS; i++) {
		struct json_object *e = json_object_array_get_idx(all, i);
		const char *tag = json_object_is_type(e, json_type_string) ? json_object_get_string(e) : "";
		char **more;

		if (!*tag || strlen(tag) > 128 || !settings_wants_tag(t->settings, tag))
			continue;
		more = reallocarray(t->list, t->n + 1, sizeof *more);
		t->list = more ? more : t->list;
		if (!more || !(t->list[t->n] = strdup(tag))) {
			t->failed = true;
			return;
		}
		t->n++;
	}
}

static void tags_free(struct tags *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->list[i]);
	free(t->list);
}

/* Newest first, as far as tags tell. */
static int by_version(const void *a, const void *b) { return version_compare(*(char *const *)b, *(char *const *)a); }

static const char *label(struct json_object *labels, const char *key)
{
	struct json_object *v = json_object_is_type(labels, json_type_object) ? json_object_object_get(labels, key) : NULL;

	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}

static bool copy(char *dst, size_t size, const char *src)
{
	return *src && (size_t)snprintf(dst, size, "%s", src) < size;
}

static bool read_labels(struct json_object *labels, struct variant *v)
{
	const char *name = label(labels, "dev.edera.kernel.variant"), *flavor = label(labels, "dev.edera.kernel.flavor");

	return !strcmp(label(labels, "dev.edera.kernel.format"), "1") && *flavor && copy(v->name, sizeof v->name, *name ? name : flavor) &&
	       copy(v->version, sizeof v->version, label(labels, "dev.edera.kernel.version"));
}

bool inspect_parse(const char *json, size_t len, struct variant *ret)
{
	_json_ struct json_object *o = len <= MAX_INSPECT ? parse(json, len, "inspect") : NULL;
	struct variant v = { 0 };

	if (!o || !copy(v.digest, sizeof v.digest, label(o, "digest")))
		return false;
	if (!read_labels(json_object_object_get(o, "annotations"), &v) && !read_labels(json_object_object_get(o, "labels"), &v))
		return false;
	*ret = v;
	return true;
}

/* The inspections of one repository, shared by a few threads. */
struct work {
	const struct edera_host *host;
	const struct edera_call *call;
	const char *repository;
	char *const *tags;
	size_t n;
	atomic_size_t next;
	pthread_mutex_t lock; /* of what follows */
	struct catalog *catalog;
	size_t done, failed;
	int code;
	struct edera_error first;
};

struct answer {
	struct variant variant;
	bool is_kernel;
};

static void on_inspect(void *user, const char *line, size_t len)
{
	struct answer *a = user;

	if (!a->is_kernel)
		a->is_kernel = inspect_parse(line, len, &a->variant);
}

static void inspect(struct work *w, const char *tag)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct answer a = { .is_kernel = false };
	char ref[512];
	const char *args[] = { "inspect", ref, NULL };
	const struct edera_oci_run run = { .size = sizeof run, .args = args, .output_fd = -1, .spool_fd = -1, .line = on_inspect, .user = &a };
	int r;

	snprintf(ref, sizeof ref, "%s:%s", w->repository, tag);
	r = w->host->oci_run(w->host->core, w->call, &run, &err);
	pthread_mutex_lock(&w->lock);
	if (!r && a.is_kernel) {
		snprintf(a.variant.tag, sizeof a.variant.tag, "%s", tag);
		r = catalog_add(w->catalog, &a.variant);
	}
	w->done += !r;
	w->failed += r < 0;
	if (r && !w->code) {
		w->code = r;
		w->first = err;
	}
	pthread_mutex_unlock(&w->lock);
}

static void *inspector(void *user)
{
	struct work *w = user;
	size_t i;

	while ((i = atomic_fetch_add(&w->next, 1)) < w->n)
		inspect(w, w->tags[i]);
	return NULL;
}

static void log_text(const struct edera_host *host, int priority, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void log_text(const struct edera_host *host, int priority, const char *fmt, ...)
{
	char text[1000];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	host->log(host->core, priority, text);
}

static int inspect_all(struct work *w, struct edera_error *err)
{
	pthread_t threads[INSPECTORS];
	size_t n = 0;

	while (n < INSPECTORS && n < w->n && !pthread_create(&threads[n], NULL, inspector, w))
		n++;
	if (!n)
		inspector(w);
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	if (w->failed && !w->done) {
		*err = w->first;
		return w->code;
	}
	if (w->failed)
		log_text(w->host, EDERA_LOG_WARNING, "%zu of %zu tags of %s could not be inspected; the first: %s", w->failed, w->n, w->repository, w->first.msg);
	return 0;
}

int fetch(const struct edera_host *host, const struct settings *settings, const struct edera_call *call, const char *repository,
	  struct catalog *ret, struct edera_error *err)
{
	const char *args[] = { "tags", repository, NULL };
	struct tags tags = { .settings = settings };
	const struct edera_oci_run run = { .size = sizeof run, .args = args, .output_fd = -1, .spool_fd = -1, .line = on_tags, .user = &tags };
	struct catalog found = { 0 };
	struct work w = { .host = host, .call = call, .repository = repository, .catalog = &found, .lock = PTHREAD_MUTEX_INITIALIZER };
	int r = host->oci_run(host->core, call, &run, err);

	if (!r && (!tags.answered || tags.failed))
		r = err_set(err, tags.failed ? -ENOMEM : -EBADMSG, "the tags of %s did not come", repository);
	if (!r) {
		qsort(tags.list, tags.n, sizeof *tags.list, by_version);
		if (tags.n > settings->max_tags)
			log_text(host, EDERA_LOG_WARNING, "%s has %zu tags that match; only the newest %zu are looked at (plugin.registry.max-tags)",
				 repository, tags.n, settings->max_tags);
		w.tags = tags.list;
		w.n = tags.n < settings->max_tags ? tags.n : settings->max_tags;
		r = inspect_all(&w, err);
	}
	tags_free(&tags);
	if (r)
		catalog_free(&found);
	else
		*ret = found;
	return r;
}
