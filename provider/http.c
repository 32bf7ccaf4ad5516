/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static size_t on_body(char *data, size_t one, size_t n, void *user)
{
	struct http_request *q = user;
	long status = 0;
	int r;

	curl_easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &status);
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
		if (status < 400) {
			snprintf(q->message, sizeof q->message, "the answer is larger than the %zu bytes allowed", q->max_body);
			q->error = -EFBIG;
			q->told = true;
			return 0;
		}
		q->header_bytes += n; /* of an error page, the start is enough */
		return q->header_bytes > q->max_body + HTTP_HEADERS_MAX ? 0 : n;
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

static size_t on_header(char *line, size_t one, size_t n, void *user)
{
	struct http_request *q = user;
	size_t len = n, name;
	const char *value;

	q->header_bytes += n;
	if (q->header_bytes > HTTP_HEADERS_MAX) {
		snprintf(q->message, sizeof q->message, "the headers of the answer are larger than the %u bytes allowed", HTTP_HEADERS_MAX);
		q->error = -EFBIG;
		q->told = true;
		return 0;
	}
	while (len > 0 && strchr(" \t\r\n", line[len - 1]))
		len--;
	if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) { /* of the next answer, after a redirect */
		q->content_type[0] = q->link[0] = q->content_range[0] = q->retry_after[0] = 0;
		buf_clear(&q->challenges);
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
	else if (IS("link"))
		copy_value(q->link, sizeof q->link, value, len);
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

static void set_tls(CURL *e, const struct http_options *o)
{
	if (o->ca.len) {
		struct curl_blob b = { o->ca.data, o->ca.len, CURL_BLOB_NOCOPY };

		curl_easy_setopt(e, CURLOPT_CAINFO_BLOB, &b);
	}
	if (o->cert.len) {
		struct curl_blob c = { o->cert.data, o->cert.len, CURL_BLOB_NOCOPY };
		struct curl_blob k = { o->key.len ? o->key.data : o->cert.data, o->key.len ? o->key.len : o->cert.len, CURL_BLOB_NOCOPY };

		curl_easy_setopt(e, CURLOPT_SSLCERT_BLOB, &c);
		curl_easy_setopt(e, CURLOPT_SSLKEY_BLOB, &k);
	}
}

int http_start(struct http *h, struct http_request *q, struct edera_error *err)
{
	CURL *e = curl_easy_init();
	char range[40];

	if (!e)
		return err_errno(err, -ENOMEM, "cannot start a request");
	q->easy = e;
	q->http = h;
	curl_easy_setopt(e, CURLOPT_URL, q->url);
	curl_easy_setopt(e, CURLOPT_PRIVATE, q);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, q->error_text);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_USERAGENT, USER_AGENT);
	/* One connection a request: what waits for room then waits in the server, not in buffers here. */
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 131072L);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, q->plain ? "http,https" : "https");
	curl_easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, text_starts(q->url, "http:") ? "http,https" : "https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, q->post ? 0L : 1L);
	curl_easy_setopt(e, CURLOPT_MAXREDIRS, (long)HTTP_REDIRECTS_MAX);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, (long)HTTP_CONNECT_SECONDS);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 512L);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)HTTP_STALL_SECONDS);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, q);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, q);
	if (h->options.proxy)
		curl_easy_setopt(e, CURLOPT_PROXY, h->options.proxy);
	set_tls(e, &h->options);
	if (q->accept)
		q->headers = add_header(q->headers, "Accept", q->accept);
	if (q->authorization)
		q->headers = add_header(q->headers, "Authorization", q->authorization);
	/* Bytes are hashed as they are: nobody on the way may repack them. */
	q->headers = add_header(q->headers, "Accept-Encoding", "identity");
	if (q->range) {
		snprintf(range, sizeof range, "%llu-", (unsigned long long)q->range);
		curl_easy_setopt(e, CURLOPT_RANGE, range);
	}
	if (q->post)
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, q->post);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, q->headers);
	if (curl_multi_add_handle(h->multi, e) != CURLM_OK)
		return err_set(err, -EIO, "cannot start a request");
	q->next = h->running;
	h->running = q;
	return 0;
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

static void finish(struct http_request *q, CURLcode code)
{
	curl_easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &q->status);
	q->done = true;
	if (code != CURLE_OK && !q->told) {
		q->error = errno_of(code);
		snprintf(q->message, sizeof q->message, "%s", q->error_text[0] ? q->error_text : curl_easy_strerror(code));
	}
	unlink_request(q);
	curl_multi_remove_handle(q->http->multi, q->easy);
	curl_easy_cleanup(q->easy);
	curl_slist_free_all(q->headers);
	q->easy = NULL;
	q->headers = NULL;
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
	*q = (struct http_request){ .url = q->url, .accept = q->accept, .authorization = q->authorization, .post = q->post, .range = q->range,
				    .max_body = q->max_body, .plain = q->plain, .data = q->data, .user = q->user };
}
