/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"
#include "headers.h"
#include "io.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define TAGS_BODY_MAX (4u << 20)
#define TAG_PAGES_MAX 200
#define TAGS_MAX 100000

static const char accept_manifests[] =
	"application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
	"application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json, */*";

double now_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

double retry_delay(unsigned try, const char *retry_after)
{
	double s = retry_after && retry_after[0] ? header_retry_after(retry_after) : 0;

	if (s <= 0)
		s = (double)(1u << (try > 5 ? 5 : try - 1)) * (0.75 + (double)(random() % 1000) / 2000);
	return s > RETRY_AFTER_MAX ? RETRY_AFTER_MAX : s;
}

bool status_is_temporary(long s) { return s == 408 || s == 425 || s == 429 || (s >= 500 && s != 501 && s != 505); }

int registry_status_error(const struct http_request *q, const char *what, struct edera_error *err)
{
	_json_ json_object *o = NULL;
	json_object *errors, *first;
	const char *detail = NULL;
	int code = q->status == 404 ? -ENOENT : q->status == 401 || q->status == 403 ? -EACCES : q->status == 429 ? -EBUSY : -EPROTO;

	if (q->body.len && !json_read(q->body.data, q->body.len, &o, NULL)) {
		errors = json_member(o, "errors", json_type_array);
		first = errors ? json_object_array_get_idx(errors, 0) : NULL;
		detail = first ? json_text(first, "message") : NULL;
		if (first && (!detail || !*detail))
			detail = json_text(first, "code");
	}
	return err_set(err, code, "%s: the registry answered with status %ld%s%.150s", what, q->status,
		       detail ? ", " : q->status == 404 ? ", it does not exist" : q->status == 429 ? ", too many requests" : "", detail ? detail : "");
}

int registry_url(const struct registry *r, const struct endpoint *e, const char *kind, const char *what, char ret[URL_MAX], struct edera_error *err)
{
	int n = snprintf(ret, URL_MAX, "%s://%s/v2/%s/%s/%s%s%s", e->plain ? "http" : "https", e->host, r->ref.image.repository, kind, what,
			 e->mirror ? "?ns=" : "", e->mirror ? r->ref.image.registry : "");

	return n < URL_MAX ? 0 : err_set(err, -ENAMETOOLONG, "the address of '%.100s' is too long", what);
}

static int pause_for(struct registry *r, double seconds, struct edera_error *err)
{
	double until = now_seconds() + seconds;
	int rc = 0;

	while (!rc && now_seconds() < until)
		rc = http_step(&r->http, 200, err);
	return rc;
}

int registry_request(struct registry *r, struct endpoint *e, struct http_request *q, unsigned tries, const char *what, struct edera_error *err)
{
	unsigned stalls = 0, refused = 0;

	for (unsigned try = 1;; try++) {
		int rc = registry_refresh(r, e, err);

		q->authorization = e->authorization;
		q->plain = e->plain;
		if (!rc)
			rc = http_run(&r->http, q, err);
		if (rc)
			return rc;
		if (!q->error && q->status == 200)
			return 0;
		if (!q->error && q->status == 401 && refused++ < 2) {
			rc = registry_authenticate(r, e, (char *)q->challenges.data, q->challenges.len, err);
			if (rc)
				return err_wrap(err, "%s", what);
			http_request_reset(q);
			continue;
		}
		if (q->error == -ETIMEDOUT)
			stalls++;
		bool temporary = q->error ? !q->told && q->error != -EPERM && q->error != -EPROTO : status_is_temporary(q->status);

		bool unreachable = q->error == -ECONNREFUSED || q->error == -EHOSTUNREACH;

		if (!temporary || try >= (unreachable && tries > TRIES_UNREACHABLE ? TRIES_UNREACHABLE : tries) || stalls >= STALLS_MAX)
			return q->error ? err_set(err, q->error, "%s: %s", what, q->message) : registry_status_error(q, what, err);
		rc = pause_for(r, retry_delay(try, q->retry_after), err);
		if (rc)
			return rc;
		http_request_reset(q);
	}
}

/* The same thing from each endpoint in turn, the one that answered last first. */
static int get(struct registry *r, const char *kind, const char *what, const char *accept, size_t max, struct http_request *q, struct edera_error *err)
{
	char url[URL_MAX], name[700];
	int rc = -ENOENT;

	for (unsigned i = r->good; i < r->n_endpoints; i++) {
		struct endpoint *e = &r->endpoints[i];
		bool last = i + 1 == r->n_endpoints;

		snprintf(name, sizeof name, "%s/%s, %s %.150s", e->host, r->ref.image.repository, kind, what);
		http_request_reset(q);
		rc = registry_url(r, e, kind, what, url, err);
		if (rc)
			return rc;
		*q = (struct http_request){ .url = url, .accept = accept, .max_body = max };
		rc = registry_request(r, e, q, last ? TRIES_MAX : 1, name, err);
		if (!rc || rc == -ECANCELED) {
			r->good = i;
			break;
		}
	}
	q->url = q->authorization = NULL;
	return rc;
}

static int verified(const void *data, size_t n, const char *digest, struct edera_error *err)
{
	char found[DIGEST_MAX];
	int r = digest_of(data, n, digest, found, err);

	if (!r && strcmp(found, digest))
		r = err_set(err, -EBADMSG, "%s is not what was sent: its bytes have the digest %s", digest, found);
	return r;
}

static int registry_manifest(struct source *s, const char *digest, struct buf *ret, char ret_digest[DIGEST_MAX], struct edera_error *err)
{
	struct registry *r = (struct registry *)s;
	const char *want = digest ? digest : r->ref.image.digest;
	struct http_request q = { 0 };

	if (want[0] && !local_blob(&r->local, want, 0, MANIFEST_MAX, ret)) {
		strcpy(ret_digest, want);
		return 0;
	}
	int rc = get(r, "manifests", want[0] ? want : r->ref.image.tag, accept_manifests, MANIFEST_MAX, &q, err);

	if (!rc && want[0]) {
		rc = verified(q.body.data, q.body.len, want, err);
		if (rc && q.content_type[0] && text_starts(q.content_type, "text/"))
			err_wrap(err, "the registry sent '%s'", q.content_type);
		strcpy(ret_digest, want);
	} else if (!rc) {
		rc = digest_of(q.body.data, q.body.len, "sha256:", ret_digest, err);
	}
	if (!rc) {
		*ret = q.body;
		q.body = (struct buf)BUF_INIT;
	}
	http_request_reset(&q);
	return rc;
}

static int registry_blob(struct source *s, const struct descriptor *d, struct buf *ret, struct edera_error *err)
{
	struct registry *r = (struct registry *)s;
	struct http_request q = { 0 };

	if (!local_blob(&r->local, d->digest, d->size, d->size, ret))
		return 0;
	int rc = get(r, "blobs", d->digest, NULL, d->size, &q, err);

	if (!rc)
		rc = verified(q.body.data, q.body.len, d->digest, err);
	if (!rc) {
		*ret = q.body;
		q.body = (struct buf)BUF_INIT;
	}
	http_request_reset(&q);
	return rc;
}

/* A link is followed only within the registry it came from. */
static int join_url(const struct registry *r, const struct endpoint *e, const char *link, char ret[URL_MAX], struct edera_error *err)
{
	char base[400];
	int n;

	snprintf(base, sizeof base, "%s://%s/", e->plain ? "http" : "https", e->host);
	if (link[0] == '/' && link[1] != '/')
		n = snprintf(ret, URL_MAX, "%s%s", base, link + 1);
	else if (text_starts(link, base))
		n = snprintf(ret, URL_MAX, "%s", link);
	else if (link[0] == '?')
		n = snprintf(ret, URL_MAX, "%sv2/%s/tags/list%s", base, r->ref.image.repository, link);
	else
		return err_set(err, -EPROTO, "the registry %s continues its list of tags at another place: '%.100s'", e->host, link);
	return n < URL_MAX ? 0 : err_set(err, -ENAMETOOLONG, "the address of a list of tags is too long");
}

static int read_tags(const struct buf *body, int (*tag)(void *, const char *), void *user, unsigned *total, struct edera_error *err)
{
	_json_ json_object *o = NULL;
	json_object *tags;
	int rc = json_read(body->data, body->len, &o, err);

	if (rc)
		return err_wrap(err, "the list of tags");
	tags = json_member(o, "tags", json_type_array);
	for (size_t i = 0; tags && i < json_object_array_length(tags); i++) {
		json_object *t = json_object_array_get_idx(tags, i);
		const char *s = json_object_is_type(t, json_type_string) ? json_object_get_string(t) : "";

		if (!*s || *s == '.' || *s == '-' || strlen(s) > ORIGIN_TAG_MAX || strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != strlen(s))
			continue;
		if (++*total > TAGS_MAX)
			return err_set(err, -E2BIG, "the repository has more than %d tags", TAGS_MAX);
		rc = tag(user, s);
		if (rc)
			return rc;
	}
	return 0;
}

static int registry_tags(struct source *s, int (*tag)(void *, const char *), void *user, struct edera_error *err)
{
	struct registry *r = (struct registry *)s;
	struct http_request q = { 0 };
	char url[URL_MAX], link[2048], name[700];
	unsigned total = 0, pages = 1;
	int rc = get(r, "tags", "list", "application/json", TAGS_BODY_MAX, &q, err);
	struct endpoint *e = &r->endpoints[r->good];

	while (!rc) {
		rc = read_tags(&q.body, tag, user, &total, err);
		if (rc || !header_next_link(q.link, link, sizeof link))
			break;
		if (++pages > TAG_PAGES_MAX) {
			rc = err_set(err, -E2BIG, "the list of tags of %s has more than %d pages", r->ref.image.repository, TAG_PAGES_MAX);
			break;
		}
		rc = join_url(r, e, link, url, err);
		if (rc)
			break;
		http_request_reset(&q);
		q = (struct http_request){ .url = url, .accept = "application/json", .max_body = TAGS_BODY_MAX };
		snprintf(name, sizeof name, "%s/%s, list of tags, page %u", e->host, r->ref.image.repository, pages);
		rc = registry_request(r, e, &q, TRIES_MAX, name, err);
	}
	http_request_reset(&q);
	return rc;
}

static void registry_abort(struct source *s)
{
	struct registry *r = (struct registry *)s;

	__atomic_store_n(&r->http.aborted, true, __ATOMIC_RELEASE);
	http_wake(&r->http);
}

static void registry_free(struct source *s)
{
	struct registry *r = (struct registry *)s;

	for (unsigned i = 0; i < r->n_endpoints; i++) {
		credentials_free(&r->endpoints[i].credentials);
		free(r->endpoints[i].authorization);
	}
	if (r->http_ready)
		http_free(&r->http);
	buf_free(&r->http.options.ca);
	buf_free(&r->http.options.cert);
	buf_free(&r->http.options.key);
	free(r);
}

static const struct source_ops registry_ops = {
	.manifest = registry_manifest, .blob = registry_blob, .fetch = registry_fetch, .abort = registry_abort, .tags = registry_tags, .free = registry_free,
};

/* localhost and its addresses speak http unless they say otherwise; every other host only where configured. */
static bool plain_host(const char *host, const struct options *o)
{
	size_t n = strcspn(host, ":");

	for (const char *const *p = o->insecure; *p; p++)
		if (!strcasecmp(*p, host))
			return true;
	if (text_starts(host, "[::1]"))
		return true;
	return (n == 9 && !strncasecmp(host, "localhost", 9)) || (text_starts(host, "127.") && strspn(host, "0123456789.") == n);
}

/* docker.io is a name; registry-1.docker.io is where it answers. */
static const char *api_host(const char *host) { return strcmp(host, "docker.io") ? host : "registry-1.docker.io"; }

static int add_endpoint(struct registry *r, const char *host, bool mirror, json_object *auths, struct edera_error *err)
{
	struct endpoint *e = &r->endpoints[r->n_endpoints++];

	snprintf(e->host, sizeof e->host, "%s", api_host(host));
	e->plain = plain_host(host, r->options);
	e->mirror = mirror;
	return auths ? auth_lookup(auths, !strcmp(host, "index.docker.io") ? "docker.io" : host, r->ref.image.repository, &e->credentials, err) : 0;
}

static int read_auth(const struct options *o, json_object **ret, struct edera_error *err)
{
	_buf_ struct buf text = BUF_INIT;
	int rc;

	if (o->auth_fd < 0)
		return 0;
	rc = io_read_all(o->auth_fd, AUTH_FILE_MAX, &text, "the file with credentials", err);
	if (!rc && text.len)
		rc = json_read(text.data, text.len, ret, err);
	if (text.data)
		memset(text.data, 0, text.len);
	return rc ? err_wrap(err, "the credentials") : 0;
}

#define SYSTEM_CA "/etc/ssl/certs/ca-certificates.crt"
#define PEM_MAX (4u << 20)

static int read_tls(const struct options *o, struct http_options *h, struct edera_error *err)
{
	_buf_ struct buf extra = BUF_INIT;
	int rc = 0;

	if (o->ca) {
		rc = path_read_file(o->ca, PEM_MAX, &extra, err);
		if (!rc && path_read_file(SYSTEM_CA, PEM_MAX, &h->ca, NULL))
			h->ca = (struct buf)BUF_INIT;
		buf_puts(&h->ca, "\n");
		buf_append(&h->ca, extra.data, extra.len);
	}
	if (!rc && o->cert)
		rc = path_read_file(o->cert, PEM_MAX, &h->cert, err);
	if (!rc && o->key)
		rc = path_read_file(o->key, PEM_MAX, &h->key, err);
	return rc;
}

int source_registry_new(const struct origin *ref, const struct options *o, struct source **ret, struct edera_error *err)
{
	struct registry *r = calloc(1, sizeof *r);
	_json_ json_object *auths = NULL;
	struct http_options h = { .proxy = o->proxy };
	int rc;

	if (!r)
		return err_errno(err, -ENOMEM, "cannot make a registry client");
	r->source.ops = &registry_ops;
	r->ref = *ref;
	r->options = o;
	r->local.socket = o->content_fd;
	srandom((unsigned)time(NULL) ^ (unsigned)getpid());
	rc = read_auth(o, &auths, err);
	if (!rc)
		rc = read_tls(o, &h, err);
	if (!rc && o->mirror && *o->mirror && !strcmp(ref->image.registry, "docker.io") && strcmp(o->mirror, "docker.io") && strcmp(o->mirror, "index.docker.io"))
		rc = add_endpoint(r, o->mirror, true, auths, err);
	if (!rc)
		rc = add_endpoint(r, ref->image.registry, false, auths, err);
	if (!rc)
		rc = http_init(&r->http, &h, err);
	r->http_ready = !rc;
	if (rc) {
		registry_free(&r->source);
		return rc;
	}
	*ret = &r->source;
	return 0;
}
