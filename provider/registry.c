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

static const char accept_manifests[] =
	"application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
	"application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json, */*";

double retry_delay(unsigned try, const char *retry_after)
{
	double s = retry_after && retry_after[0] ? header_retry_after(retry_after) : 0;

	if (s <= 0)
		s = (double)(1u << (try > 5 ? 5 : try - 1)) * (0.75 + (double)(random() % 1000) / 2000);
	return s > RETRY_AFTER_MAX ? RETRY_AFTER_MAX : s;
}

bool status_is_temporary(long s) { return s == 408 || s == 425 || s == 429 || (s >= 500 && s != 501 && s != 505); }

static const char *reason(long status)
{
	switch (status) {
	case 404: return ", it does not exist";
	case 407: return ", the proxy wants authentication";
	case 429: return ", too many requests";
	default: return "";
	}
}

/* Object stores explain themselves in XML. */
static char *xml_message(const struct buf *body)
{
	static const char open[] = "<Message>";
	const char *from = body->len ? memmem(body->data, body->len, open, sizeof open - 1) : NULL, *to;

	if (!from)
		return NULL;
	from += sizeof open - 1;
	to = memchr(from, '<', (size_t)((const char *)body->data + body->len - from));
	return to ? strndup(from, (size_t)(to - from)) : NULL;
}

int registry_status_error(const struct registry *r, const struct http_request *q, const char *what, struct edera_error *err)
{
	_json_ json_object *o = NULL;
	_free_ char *said = NULL;
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
	said = detail ? strdup(detail) : !o ? xml_message(&q->body) : NULL;
	if (said)
		registry_conceal(r, said);
	return err_set(err, code, "%s: the %s answered with status %ld%s%.150s", what, q->away ? "host the registry leads to" : "registry", q->status,
		       said ? ", " : reason(q->status), said ? said : "");
}

int registry_path(const struct registry *r, const struct endpoint *e, const char *kind, const char *what, char ret[URL_MAX], struct edera_error *err)
{
	int n = snprintf(ret, URL_MAX, "/v2/%s/%s/%s%s%s", r->ref.image.repository, kind, what, e->mirror ? "?ns=" : "", e->mirror ? r->ref.image.registry : "");

	return n < URL_MAX ? 0 : err_set(err, -ENAMETOOLONG, "the address of '%.100s' is too long", what);
}

int registry_address(struct endpoint *e, const char *path, struct http_request *q, char url[URL_MAX], struct edera_error *err)
{
	int n = snprintf(url, URL_MAX, "%s://%s%s", e->plain ? "http" : "https", e->host, path);

	q->url = url;
	q->authorization = e->authorization;
	q->plain = e->plain;
	q->unverified = e->unverified && !e->plain;
	q->certified = !e->mirror;
	q->brief = e->scheme == SCHEME_TRYING_TLS;
	return n < URL_MAX ? 0 : err_set(err, -ENAMETOOLONG, "the address of '%.100s' is too long", path);
}

bool registry_is_stray(const struct http_request *q, unsigned *strays) { return q->away && q->status >= 400 && q->status < 404 && ++*strays < STRAYS_MAX; }

static int pause_for(struct registry *r, double seconds, struct edera_error *err)
{
	double until = now_seconds() + seconds;
	int rc = 0;

	while (!rc && now_seconds() < until)
		rc = http_step(&r->http, 200, err);
	return rc;
}

bool registry_other_scheme(struct endpoint *e, const struct http_request *q)
{
	bool answered = q->status != 0 || q->hops || q->tls, odd = q->status ? q->status == 400 : q->error == -ECONNRESET || q->error == -EPROTO;

	if (q->plain != e->plain) /* another request has found out in the meantime */
		return true;
	if (e->scheme == SCHEME_OPEN && e->plain && odd && !q->hops) {
		e->scheme = SCHEME_TRYING_TLS;
		e->plain = false;
		return true;
	}
	if (e->scheme == SCHEME_TRYING_TLS && !answered && q->error != -EPERM) {
		e->scheme = SCHEME_SETTLED;
		e->plain = true;
		return true;
	}
	if (answered || e->scheme == SCHEME_TRYING_TLS)
		e->scheme = SCHEME_SETTLED;
	return false;
}

unsigned registry_tries(const struct endpoint *e, const struct http_request *q)
{
	bool unreachable = q->error == -ECONNREFUSED || q->error == -EHOSTUNREACH, answered = q->hops || (e && e->scheme == SCHEME_SETTLED);

	return unreachable && !answered ? TRIES_UNREACHABLE : TRIES_MAX;
}

int registry_request(struct registry *r, struct endpoint *e, const char *path, struct http_request *q, unsigned tries, const char *what, struct edera_error *err)
{
	unsigned stalls = 0, refused = 0, strays = 0;
	double paused = 0;
	char url[URL_MAX];

	for (unsigned try = 1;; try++) {
		int rc = registry_refresh(r, e, err);

		if (!rc)
			rc = registry_address(e, path, q, url, err);
		if (!rc)
			rc = http_run(&r->http, q, err);
		q->url = q->authorization = NULL;
		if (rc)
			return rc;
		if (registry_other_scheme(e, q)) {
			http_request_reset(q);
			try--;
			continue;
		}
		if (!q->error && q->status == 200)
			return 0;
		if (!q->error && q->status == 401 && !q->away && refused++ < 2) {
			rc = registry_authenticate(r, e, (char *)q->challenges.data, q->challenges.len, err);
			if (rc)
				return err_wrap(err, "%s", what);
			http_request_reset(q);
			continue;
		}
		if (q->error == -ETIMEDOUT)
			stalls++;
		bool temporary = q->error ? !q->told && q->error != -EPERM && q->error != -EPROTO : status_is_temporary(q->status) || registry_is_stray(q, &strays);
		unsigned most = registry_tries(e, q);
		double delay = retry_delay(try, q->retry_after);

		if (!temporary || try >= (tries < most ? tries : most) || stalls >= STALLS_MAX || paused + delay > PAUSES_MAX)
			return q->error ? err_set(err, q->error, "%s: %s", what, q->message) : registry_status_error(r, q, what, err);
		paused += delay;
		rc = pause_for(r, delay, err);
		if (rc)
			return rc;
		http_request_reset(q);
	}
}

int registry_get(struct registry *r, const char *kind, const char *what, const char *accept, size_t max, struct http_request *q, struct edera_error *err)
{
	char path[URL_MAX], name[700];
	int rc = -ENOENT;

	for (unsigned i = r->good; i < r->n_endpoints; i++) {
		struct endpoint *e = &r->endpoints[i];
		bool last = i + 1 == r->n_endpoints;

		snprintf(name, sizeof name, "%s/%s, %s %.150s", e->host, r->ref.image.repository, kind, what);
		http_request_reset(q);
		rc = registry_path(r, e, kind, what, path, err);
		if (rc)
			return rc;
		*q = (struct http_request){ .accept = accept, .max_body = max };
		rc = registry_request(r, e, path, q, last ? TRIES_MAX : 1, name, err);
		if (!rc || rc == -ECANCELED) {
			r->good = i;
			break;
		}
	}
	return rc;
}

void registry_explain(const struct http_request *q, struct edera_error *err)
{
	if (q->content_encoding[0] && strcasecmp(q->content_encoding, "identity"))
		err_wrap(err, "the registry sent it encoded as '%s'", q->content_encoding);
	else if (text_starts(q->content_type, "text/"))
		err_wrap(err, "the registry sent '%s'", q->content_type);
}

static int verified(const void *data, size_t n, const char *digest, struct edera_error *err)
{
	char found[DIGEST_MAX];
	int r = digest_of(data, n, digest, found, err);

	if (!r && strcmp(found, digest))
		r = err_set(err, -EBADMSG, "%s is not what was sent: its bytes have the digest %s", digest, found);
	return r;
}

static int concealed(const struct source *s, int rc, struct edera_error *err)
{
	if (rc && err)
		registry_conceal((const struct registry *)s, err->msg);
	return rc;
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
	int rc = registry_get(r, "manifests", want[0] ? want : r->ref.image.tag, accept_manifests, MANIFEST_MAX, &q, err);

	if (!rc && want[0]) {
		rc = verified(q.body.data, q.body.len, want, err);
		if (rc)
			registry_explain(&q, err);
		strcpy(ret_digest, want);
	} else if (!rc && (!q.body.len || !strchr("{[ \t\r\n", q.body.data[0]))) {
		rc = err_set(err, -EBADMSG, "the manifest of %s/%s:%s is not JSON", r->ref.image.registry, r->ref.image.repository, want);
		registry_explain(&q, err);
	} else if (!rc) {
		rc = digest_of(q.body.data, q.body.len, "sha256:", ret_digest, err);
	}
	if (!rc) {
		*ret = q.body;
		q.body = (struct buf)BUF_INIT;
	}
	http_request_reset(&q);
	return concealed(s, rc, err);
}

static int registry_blob(struct source *s, const struct descriptor *d, struct buf *ret, struct edera_error *err)
{
	struct registry *r = (struct registry *)s;
	struct http_request q = { 0 };

	if (!local_blob(&r->local, d->digest, d->size, d->size, ret))
		return 0;
	int rc = registry_get(r, "blobs", d->digest, NULL, d->size, &q, err);

	if (!rc)
		rc = verified(q.body.data, q.body.len, d->digest, err);
	if (rc == -EBADMSG)
		registry_explain(&q, err);
	if (!rc) {
		*ret = q.body;
		q.body = (struct buf)BUF_INIT;
	}
	http_request_reset(&q);
	return concealed(s, rc, err);
}

static int fetch(struct source *s, struct fetch **list, uint32_t n, struct edera_error *err) { return concealed(s, registry_fetch(s, list, n, err), err); }

static int tags(struct source *s, int (*tag)(void *, const char *), void *user, struct edera_error *err)
{
	return concealed(s, registry_tags(s, tag, user, err), err);
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
	.manifest = registry_manifest, .blob = registry_blob, .fetch = fetch, .abort = registry_abort, .tags = tags, .free = registry_free,
};

bool registry_insecure_host(const struct registry *r, const char *host)
{
	for (const char *const *p = r->options->insecure; *p; p++)
		if (!strcasecmp(*p, host))
			return true;
	return false;
}

/* localhost and its addresses speak http unless they say otherwise; every other host only where configured. */
bool registry_plain_host(const struct registry *r, const char *host)
{
	size_t n = strcspn(host, ":");

	if (registry_insecure_host(r, host) || !strcmp(host, "[::1]") || text_starts(host, "[::1]:"))
		return true;
	return (n == 9 && !strncasecmp(host, "localhost", 9)) || (text_starts(host, "127.") && strspn(host, "0123456789.") == n);
}

/* docker.io is a name; registry-1.docker.io is where it answers. */
static const char *api_host(const char *host) { return strcmp(host, "docker.io") ? host : "registry-1.docker.io"; }

static int add_endpoint(struct registry *r, const char *host, bool mirror, json_object *auths, struct edera_error *err)
{
	struct endpoint *e = &r->endpoints[r->n_endpoints++];

	snprintf(e->host, sizeof e->host, "%s", api_host(host));
	e->plain = registry_plain_host(r, host);
	e->unverified = registry_insecure_host(r, host);
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
		rc = registry_read_tls(o, &h, err);
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
