/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"
#include "url.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define USER_AGENT "protect-oci-provider/" PACKAGE_VERSION

int http_init(struct http *h, const struct http_options *o, struct edera_error *err)
{
	*h = (struct http){ .options = *o };
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, -EIO, "cannot initialise libcurl");
	h->multi = curl_multi_init();
	if (!h->multi)
		return err_errno(err, -ENOMEM, "cannot initialise libcurl");
	return 0;
}

void http_free(struct http *h)
{
	while (h->running)
		http_request_reset(h->running);
	if (h->multi)
		curl_multi_cleanup(h->multi);
	h->multi = NULL;
}

void http_wake(struct http *h) { curl_multi_wakeup(h->multi); }

double now_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Our own verdict about an answer: it has failed, whatever libcurl makes of it. */
static void __attribute__((format(printf, 3, 4))) fail(struct http_request *q, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(q->message, sizeof q->message, fmt, ap);
	va_end(ap);
	q->error = error;
	q->told = true;
}

static bool is_redirect(const struct http_request *q, long status)
{
	return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) && q->location.len && !q->post;
}

/* Of what nobody wants, some is read to be polite. */
static size_t pass_over(struct http_request *q, size_t n)
{
	q->page_bytes += n;
	q->enough = q->page_bytes > HTTP_PAGE_MAX;
	return q->enough ? 0 : n;
}

static size_t on_body(char *data, size_t one, size_t n, void *user)
{
	struct http_request *q = user;
	long status = 0;
	int r;

	curl_easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &status);
	q->in_body = true;
	if (is_redirect(q, status))
		return pass_over(q, n);
	if (q->data && (status == 200 || status == 206)) {
		q->status = status;
		r = q->data(q->user, (uint8_t *)data, n);
		if (r == -EAGAIN) {
			q->paused = true;
			return CURL_WRITEFUNC_PAUSE;
		}
		if (r) {
			q->told = true;
			q->error = r;
			return 0;
		}
		return n;
	}
	if (n > q->max_body - q->body.len) {
		if (status >= 400) /* of an error page, the start is enough */
			return pass_over(q, n);
		fail(q, -EFBIG, "the answer is larger than the %zu bytes allowed", q->max_body);
		return 0;
	}
	buf_append(&q->body, data, n);
	return q->body.failed ? 0 : n;
}

static void copy_value(char *dst, size_t cap, const char *value, size_t n)
{
	if (n >= cap)
		n = 0; /* cut short it would mean something else */
	memcpy(dst, value, n);
	dst[n] = 0;
}

/* A header that may come in pieces. */
static void add_value(char *dst, size_t cap, const char *value, size_t n)
{
	size_t used = strlen(dst);

	if (used && used + n + 2 < cap) {
		memcpy(dst + used, ", ", 3);
		used += 2;
	}
	if (used + n < cap)
		copy_value(dst + used, cap - used, value, n);
}

static size_t on_header(char *line, size_t one, size_t n, void *user)
{
	struct http_request *q = user;
	size_t len = n, name;
	const char *value;

	q->header_bytes += n;
	if (q->header_bytes > HTTP_HEADERS_MAX) {
		fail(q, -EFBIG, "the headers of the answer are larger than the %u bytes allowed", HTTP_HEADERS_MAX);
		return 0;
	}
	while (len > 0 && strchr(" \t\r\n", line[len - 1]))
		len--;
	if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) { /* of the next answer, after a 100 or a redirect */
		q->content_type[0] = q->content_encoding[0] = q->link[0] = q->content_range[0] = q->retry_after[0] = 0;
		buf_clear(&q->challenges);
		buf_clear(&q->location);
		return n;
	}
	value = memchr(line, ':', len);
	if (!value)
		return n;
	name = (size_t)(value - line);
	for (value++; value < line + len && strchr(" \t", *value); value++)
		;
	len -= (size_t)(value - line);
#define IS(text) (name == strlen(text) && strncasecmp(line, text, name) == 0)
	if (IS("content-type"))
		copy_value(q->content_type, sizeof q->content_type, value, len);
	else if (IS("content-encoding"))
		copy_value(q->content_encoding, sizeof q->content_encoding, value, len);
	else if (IS("location") && !memchr(value, 0, len)) {
		buf_clear(&q->location);
		buf_append(&q->location, value, len);
		buf_append(&q->location, "", 1);
	} else if (IS("link"))
		add_value(q->link, sizeof q->link, value, len);
	else if (IS("content-range"))
		copy_value(q->content_range, sizeof q->content_range, value, len);
	else if (IS("retry-after"))
		copy_value(q->retry_after, sizeof q->retry_after, value, len);
	else if (IS("www-authenticate")) {
		buf_append(&q->challenges, value, len);
		buf_append(&q->challenges, "\n", 1);
	}
#undef IS
	return n;
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value)
{
	_buf_ struct buf line = BUF_INIT;

	buf_printf(&line, "%s: %s", name, value);
	return line.failed ? list : curl_slist_append(list, (char *)line.data);
}

/* Who the client is concerns the registry, and nobody it leads to. */
static bool shows_certificate(const struct http_request *q) { return q->certified && !q->away && q->http->options.cert.len; }

static void set_tls(CURL *e, const struct http_options *o, bool unverified, bool certified)
{
	if (unverified) {
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (o->ca.len) {
		struct curl_blob b = { o->ca.data, o->ca.len, CURL_BLOB_NOCOPY };

		curl_easy_setopt(e, CURLOPT_CAINFO_BLOB, &b);
	}
	if (certified) {
		struct curl_blob c = { o->cert.data, o->cert.len, CURL_BLOB_NOCOPY };
		struct curl_blob k = { o->key.len ? o->key.data : o->cert.data, o->key.len ? o->key.len : o->cert.len, CURL_BLOB_NOCOPY };

		curl_easy_setopt(e, CURLOPT_SSLCERT_BLOB, &c);
		curl_easy_setopt(e, CURLOPT_SSLKEY_BLOB, &k);
		/* Else a key that is encrypted makes OpenSSL ask on a terminal, of which there is none. */
		curl_easy_setopt(e, CURLOPT_KEYPASSWD, "");
	}
}

/* How long: a request that keeps its answer has one limit for all of it, one that hands it on only must not fall silent. */
static void set_times(CURL *e, const struct http_request *q)
{
	double left = HTTP_WHOLE_SECONDS - (now_seconds() - q->began);

	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, q->brief ? (long)HTTP_BRIEF_SECONDS : (long)HTTP_CONNECT_SECONDS);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 512L);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)HTTP_STALL_SECONDS);
	if (!q->data)
		curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, left > 0.001 ? (long)(left * 1000) : 1L);
}

static void set_headers(CURL *e, struct http_request *q)
{
	if (q->accept)
		q->headers = add_header(q->headers, "Accept", q->accept);
	if (q->authorization && !q->away)
		q->headers = add_header(q->headers, "Authorization", q->authorization);
	/* Bytes are hashed as they are: nobody on the way may repack them. */
	q->headers = add_header(q->headers, "Accept-Encoding", "identity");
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, q->headers);
}

static int begin(struct http *h, struct http_request *q, struct edera_error *err)
{
	CURL *e = curl_easy_init();
	char range[40];

	if (!e)
		return err_errno(err, -ENOMEM, "cannot start a request");
	q->easy = e;
	q->http = h;
	curl_easy_setopt(e, CURLOPT_URL, q->at ? q->at : q->url);
	curl_easy_setopt(e, CURLOPT_PRIVATE, q);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, q->error_text);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_USERAGENT, USER_AGENT);
	/* One connection a request: what waits for room then waits in the server, not in buffers here. */
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 131072L);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, q->plain ? "http,https" : "https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, q);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, q);
	if (h->options.proxy)
		curl_easy_setopt(e, CURLOPT_PROXY, h->options.proxy);
	set_tls(e, &h->options, q->unverified && !q->away, shows_certificate(q));
	set_times(e, q);
	set_headers(e, q);
	if (q->range) {
		snprintf(range, sizeof range, "%llu-", (unsigned long long)q->range);
		curl_easy_setopt(e, CURLOPT_RANGE, range);
	}
	if (q->post)
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, q->post);
	if (curl_multi_add_handle(h->multi, e) != CURLM_OK)
		return err_set(err, -EIO, "cannot start a request");
	q->next = h->running;
	h->running = q;
	return 0;
}

int http_start(struct http *h, struct http_request *q, struct edera_error *err)
{
	q->began = now_seconds();
	return begin(h, q, err);
}

static void unlink_request(struct http_request *q)
{
	for (struct http_request **p = &q->http->running; *p; p = &(*p)->next)
		if (*p == q) {
			*p = q->next;
			return;
		}
}

static int errno_of(CURLcode c)
{
	switch (c) {
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return -EHOSTUNREACH;
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
		return -EPERM;
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_TOO_MANY_REDIRECTS:
	case CURLE_URL_MALFORMAT:
		return -EPROTO;
	default:
		return -ECONNRESET;
	}
}

/* A server that refuses us for want of a certificate says so in an alert, which may come, or be lost, after what looks like a connection. */
static bool wants_certificate(struct http_request *q, CURLcode code, const char *text)
{
	const char *alert = strstr(text, "alert ");

	if (alert && (strstr(alert, "certificate") || strstr(alert, "unknown ca") || strstr(alert, "handshake failure"))) {
		q->error = -EPERM;
		return true;
	}
	return q->tls && !q->status && (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR) && !shows_certificate(q);
}

/* What libcurl says, where a hint helps. */
static void explain(struct http_request *q, CURLcode code)
{
	const char *text = q->error_text[0] ? q->error_text : curl_easy_strerror(code), *hint = "";

	if (code == CURLE_OPERATION_TIMEDOUT && !q->data && now_seconds() - q->began >= HTTP_WHOLE_SECONDS - 0.5) {
		fail(q, -ETIMEDOUT, "the answer takes longer than the %d seconds allowed", HTTP_WHOLE_SECONDS);
		return;
	}
	q->error = errno_of(code);
	if (strstr(text, "proxy syntax")) /* what follows may hold a password */
		text = "the proxy's address cannot be understood";
	if (code == CURLE_PEER_FAILED_VERIFICATION && (strstr(text, "self") || strstr(text, "issuer")))
		hint = "; a certificate authority can be named with --ca";
	else if (code == CURLE_SSL_CONNECT_ERROR && strstr(text, "wrong version number")) {
		q->error = -EPROTO;
		hint = "; it seems to speak http, which must be allowed with --insecure-registry";
	} else if (wants_certificate(q, code, text)) {
		hint = "; if it wants a client certificate, that is given with --cert and --key, or in [oci] certs-dir";
	}
	snprintf(q->message, sizeof q->message, "%.180s%s", text, hint);
}

static void finish(struct http_request *q, CURLcode code)
{
	curl_off_t shaken = 0;

	curl_easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &q->status);
	curl_easy_getinfo(q->easy, CURLINFO_APPCONNECT_TIME_T, &shaken);
	q->tls = shaken > 0 || strstr(q->error_text, "alert ");
	q->done = true;
	/* What counts of these is in the headers, and the headers are complete. */
	bool suffices = q->enough || (q->in_body && (q->status >= 400 || is_redirect(q, q->status)));

	if (code != CURLE_OK && !q->told && !suffices)
		explain(q, code);
	unlink_request(q);
	curl_multi_remove_handle(q->http->multi, q->easy);
	curl_easy_cleanup(q->easy);
	curl_slist_free_all(q->headers);
	q->easy = NULL;
	q->headers = NULL;
}

/* A redirect is another request. Nothing but where it goes differs, and whether it may carry credentials. */
static int follow(struct http *h, struct http_request *q, struct edera_error *err)
{
	const char *from = q->at ? q->at : q->url;
	_free_ char *to = url_join(from, (char *)q->location.data);

	if (!to) {
		fail(q, -EPROTO, "a redirect leads to no http or https address without credentials in it (status %ld)", q->status);
	} else if (q->hops == HTTP_REDIRECTS_MAX) {
		fail(q, -EPROTO, "there are more than %d redirects (status %ld)", HTTP_REDIRECTS_MAX, q->status);
	} else if (text_starts(to, "http://") && !(q->plain && text_starts(from, "http://"))) {
		_free_ char *place = url_authority(to);

		fail(q, -EPROTO, "a redirect leads to http://%.100s, which is not protected as https is (status %ld)", place ? place : "", q->status);
	} else if (now_seconds() - q->began > HTTP_WHOLE_SECONDS) {
		fail(q, -ETIMEDOUT, "the redirects take longer than the %d seconds allowed", HTTP_WHOLE_SECONDS);
	} else {
		free(q->at);
		q->at = steal_ptr(to);
		q->away = !url_same_origin(q->url, q->at);
		q->hops++;
		q->done = q->in_body = q->enough = false;
		q->status = 0;
		q->page_bytes = 0;
		buf_clear(&q->body);
		return begin(h, q, err);
	}
	return 0;
}

int http_step(struct http *h, int ms, struct edera_error *err)
{
	int running, left;
	CURLMsg *m;

	if (__atomic_load_n(&h->aborted, __ATOMIC_ACQUIRE))
		return err_set(err, -ECANCELED, "the pull was ended");
	if (curl_multi_perform(h->multi, &running) != CURLM_OK)
		return err_set(err, -EIO, "libcurl cannot go on");
	bool finished = false;

	while ((m = curl_multi_info_read(h->multi, &left))) {
		struct http_request *q;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&q);
		finish(q, m->data.result);
		finished = true;
		if (!q->error && is_redirect(q, q->status)) {
			int r = follow(h, q, err);

			if (r)
				return r;
		}
	}
	if (!finished && curl_multi_poll(h->multi, NULL, 0, ms, NULL) != CURLM_OK)
		return err_set(err, -EIO, "libcurl cannot go on");
	return 0;
}

int http_run(struct http *h, struct http_request *q, struct edera_error *err)
{
	int r = http_start(h, q, err);

	while (!r && !q->done)
		r = http_step(h, 1000, err);
	return r;
}

void http_resume(struct http_request *q)
{
	if (!q->paused || !q->easy)
		return;
	q->paused = false;
	curl_easy_pause(q->easy, CURLPAUSE_CONT);
}

void http_request_reset(struct http_request *q)
{
	if (q->easy) {
		unlink_request(q);
		curl_multi_remove_handle(q->http->multi, q->easy);
		curl_easy_cleanup(q->easy);
		curl_slist_free_all(q->headers);
	}
	buf_free(&q->body);
	buf_free(&q->challenges);
	buf_free(&q->location);
	free(q->at);
	*q = (struct http_request){ .url = q->url, .accept = q->accept, .authorization = q->authorization, .post = q->post, .range = q->range,
				    .max_body = q->max_body, .plain = q->plain, .unverified = q->unverified, .certified = q->certified, .brief = q->brief,
				    .data = q->data, .user = q->user };
}
