/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TOKEN_MAX (64u << 10)
#define TOKEN_LIFETIME 60  /* seconds, where the server does not say */
#define TOKEN_MARGIN 10

static void set_authorization(struct endpoint *e, char *value, double expires)
{
	if (e->authorization)
		OPENSSL_cleanse(e->authorization, strlen(e->authorization));
	free(e->authorization);
	e->authorization = value;
	e->expires = expires;
	e->generation++;
}

static void conceal(char *text, const char *secret)
{
	size_t n = secret ? strlen(secret) : 0;

	/* What is shorter is no secret, and would take ordinary words out. */
	for (char *p = text; n >= 4 && (p = strstr(p, secret)); p += 3) {
		memmove(p + 3, p + n, strlen(p + n) + 1);
		memcpy(p, "***", 3);
	}
}

void registry_conceal(const struct registry *r, char *text)
{
	for (unsigned i = 0; i < r->n_endpoints; i++) {
		const struct endpoint *e = &r->endpoints[i];

		conceal(text, e->authorization ? strchr(e->authorization, ' ') + 1 : NULL);
		conceal(text, e->credentials.password);
		conceal(text, e->credentials.identity_token);
		conceal(text, e->credentials.registry_token);
	}
}

static void append_escaped(struct buf *b, CURL *e, const char *name, const char *value, char before)
{
	char *s = curl_easy_escape(e, value, 0);

	if (!s)
		b->failed = true;
	else
		buf_printf(b, "%c%s=%s", before, name, s);
	curl_free(s);
}

static void free_easy(CURL **e) { curl_easy_cleanup(*e); }

/* The token server is where the registry says. What it gets is meant for that registry; it must be as well protected. */
static int check_realm(const struct endpoint *e, const char *realm, struct edera_error *err)
{
	bool tls = text_starts(realm, "https://");
	const char *host = strstr(realm, "://");

	if (!tls && !(e->plain && text_starts(realm, "http://")))
		return err_set(err, -EACCES, "the registry %s names a token server that is not https", e->host);
	if (memchr(host + 3, '@', strcspn(host + 3, "/?#")))
		return err_set(err, -EACCES, "the registry %s names a token server with credentials in its address", e->host);
	for (const char *p = realm; *p; p++)
		if (*p <= ' ' || *p == 0x7f)
			return err_set(err, -EACCES, "the registry %s names a token server that is no address", e->host);
	return 0;
}

static int read_token(struct registry *r, struct endpoint *e, const struct http_request *q, struct edera_error *err)
{
	_json_ json_object *o = NULL;
	const char *token;
	char *value;
	int64_t life;

	if (json_read(q->body.data, q->body.len, &o, err))
		return err_wrap(err, "the answer of the token server of %s", e->host);
	token = json_text(o, "token");
	if (!token || !*token)
		token = json_text(o, "access_token");
	if (!token || !*token)
		return err_set(err, -EACCES, "the token server of %s gave no token", e->host);
	for (const char *p = token; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return err_set(err, -EACCES, "the token server of %s gave something that is no token", e->host);
	life = json_number(o, "expires_in", TOKEN_LIFETIME);
	if (life < TOKEN_LIFETIME)
		life = TOKEN_LIFETIME;
	if (asprintf(&value, "Bearer %s", token) < 0)
		return err_errno(err, -ENOMEM, "cannot keep a token");
	set_authorization(e, value, now_seconds() + (double)(life > 86400 ? 86400 : life) - TOKEN_MARGIN);
	return 0;
}

static size_t host_length(const char *host) { return *host == '[' ? strcspn(host, "]") : strcspn(host, ":"); }

/* The same machine, whatever the port. */
static bool same_host(const char *a, const char *b) { return host_length(a) == host_length(b) && !strncasecmp(a, b, host_length(a)); }

/* One request to the token server; with an identity token a POST, else a GET, with Basic where there is a password. */
static int ask_token(struct registry *r, struct endpoint *e, bool post, struct http_request *q, struct edera_error *err)
{
	_cleanup_(free_easy) CURL *easy = curl_easy_init();
	_buf_ struct buf url = BUF_INIT, form = BUF_INIT, header = BUF_INIT;
	char scope[400];
	const char *wanted = e->challenge.scope;
	_free_ char *basic = NULL, *host = url_authority(e->challenge.realm);
	int rc;

	if (!easy)
		return err_errno(err, -ENOMEM, "cannot ask for a token");
	if (!wanted[0]) {
		snprintf(scope, sizeof scope, "repository:%s:pull", r->ref.image.repository);
		wanted = scope;
	}
	buf_puts(&url, e->challenge.realm);
	if (post) {
		buf_puts(&form, "grant_type=refresh_token&client_id=protect-oci-provider");
		append_escaped(&form, easy, "refresh_token", e->credentials.identity_token, '&');
		append_escaped(&form, easy, "service", e->challenge.service, '&');
		append_escaped(&form, easy, "scope", wanted, '&');
		q->post = (char *)form.data;
	} else {
		append_escaped(&url, easy, "scope", wanted, strchr(e->challenge.realm, '?') ? '&' : '?');
		if (e->challenge.service[0])
			append_escaped(&url, easy, "service", e->challenge.service, '&');
		basic = auth_basic(&e->credentials);
		if (basic) {
			buf_printf(&header, "Basic %s", basic);
			q->authorization = (char *)header.data;
		}
	}
	if (url.failed || form.failed || header.failed)
		return err_errno(err, -ENOMEM, "cannot ask for a token");
	q->url = (char *)url.data;
	q->plain = e->plain;
	q->unverified = host && registry_insecure_host(r, host);
	q->certified = !e->mirror && host && same_host(host, e->host);
	q->max_body = TOKEN_MAX;
	rc = http_run(&r->http, q, err);
	q->url = q->post = q->authorization = NULL;
	if (basic)
		OPENSSL_cleanse(basic, strlen(basic));
	return rc;
}

static int get_token(struct registry *r, struct endpoint *e, struct edera_error *err)
{
	struct http_request q = { 0 };
	bool post = e->credentials.identity_token != NULL;
	double paused = 0;
	int rc = check_realm(e, e->challenge.realm, err);

	for (unsigned try = 1; !rc; try++) {
		rc = ask_token(r, e, post, &q, err);
		if (rc)
			break;
		if (!q.error && q.status == 200) {
			rc = read_token(r, e, &q, err);
			break;
		}
		bool temporary = q.error ? !q.told && q.error != -ETIMEDOUT && q.error != -EPERM && q.error != -EPROTO : status_is_temporary(q.status);
		double delay = retry_delay(try, q.retry_after);

		if (!q.error && post && (q.status == 400 || q.status == 401 || q.status == 404 || q.status == 405)) {
			post = false; /* a server that knows no POST: what it lets the password, or anybody, see may do */
		} else if (temporary && try < 3 && paused + delay <= PAUSES_MAX) {
			double until = now_seconds() + delay;

			paused += delay;
			while (!rc && now_seconds() < until)
				rc = http_step(&r->http, 200, err);
		} else if (q.error) {
			rc = err_set(err, q.error, "cannot get a token for %s: %s", e->host, q.message);
		} else if (q.status == 401 || q.status == 403) {
			rc = err_set(err, -EACCES, "the token server of %s refused %s (status %ld)", e->host,
				     e->credentials.user || e->credentials.identity_token ? "the credentials given" : "anonymous access", q.status);
		} else {
			rc = err_set(err, -EACCES, "the token server of %s answered with status %ld", e->host, q.status);
		}
		http_request_reset(&q);
	}
	http_request_reset(&q);
	return rc;
}

/* Another authorization than the one that was just refused. */
static int replace(struct endpoint *e, const char *scheme, const char *secret, const char *name, struct edera_error *err)
{
	char *value;

	if (asprintf(&value, "%s %s", scheme, secret) < 0)
		return err_errno(err, -ENOMEM, "cannot keep credentials");
	if (e->authorization && !strcmp(e->authorization, value)) {
		OPENSSL_cleanse(value, strlen(value));
		free(value);
		return err_set(err, -EACCES, "the registry %s refused the %s given for it (status 401)", e->host, name);
	}
	set_authorization(e, value, 0);
	return 0;
}

int registry_authenticate(struct registry *r, struct endpoint *e, const char *challenges, size_t len, struct edera_error *err)
{
	char *basic;
	int rc;

	challenge_parse(challenges, len, &e->challenge);
	if (e->challenge.bearer)
		return e->credentials.registry_token ? replace(e, "Bearer", e->credentials.registry_token, "token", err) : get_token(r, e, err);
	if (!e->challenge.basic)
		return err_set(err, -EACCES, "the registry %s wants authentication (status 401), but of no kind that is known (Bearer, Basic)", e->host);
	basic = auth_basic(&e->credentials);
	if (!basic)
		return err_set(err, -EACCES, "the registry %s wants a user name and a password (status 401), and none are given for it", e->host);
	rc = replace(e, "Basic", basic, "credentials", err);
	OPENSSL_cleanse(basic, strlen(basic));
	free(basic);
	return rc;
}

int registry_refresh(struct registry *r, struct endpoint *e, struct edera_error *err)
{
	if (!e->authorization || e->expires == 0 || now_seconds() < e->expires)
		return 0;
	return get_token(r, e, err);
}
