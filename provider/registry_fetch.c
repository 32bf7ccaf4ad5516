/* SPDX-License-Identifier: Apache-2.0 */
/* Layers from a registry: several at a time, newest first, each taken up again where it was cut. Those that are on this machine are read
 * in between, in slices. */
#include "registry.h"
#include "headers.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_MAX 15.0 /* seconds a connection may wait for room before the spool file is used, lest the server gives up */

#define LOCAL_MAX 32   /* layers open at a time that are read from this machine */

enum transfer_state { TRANSFER_IDLE, TRANSFER_VERIFYING, TRANSFER_READING, TRANSFER_RUNNING, TRANSFER_WAITING, TRANSFER_DONE };

struct transfer {
	struct registry *r;
	struct fetch *f;
	enum transfer_state state;
	struct http_request q;
	char url[URL_MAX];
	unsigned endpoint;      /* where it is fetched; n_endpoints + i: the descriptor's urls[i] */
	unsigned tries, total, stalls, refused, strays;
	unsigned generation;    /* of the authorization sent */
	double waited;          /* in pauses since it last got on */
	bool whole;             /* the server knows no ranges: asked for all, and what is there is passed over */
	double not_before;      /* waiting: when to try again */
	double paused_since;
	uint64_t begin;         /* bytes that were there when this request started */
	uint64_t skip;          /* of this answer, to pass over what is there */
	bool checked;           /* the answer's range was looked at */
	struct local_layer local;
	bool looked;            /* whether it is on this machine */
	bool crowded;           /* local: there was no room */
	int keep_fd;            /* what is fetched is written there too; or -1 */
	struct edera_error err;
};

static int on_data(void *user, const uint8_t *data, size_t n)
{
	struct transfer *t = user;
	size_t m = 0;
	int r;

	if (!t->checked) {
		t->checked = true;
		t->skip = t->q.status == 200 ? t->begin : 0;
		if (t->q.status == 206 && !header_range_begins(t->q.content_range, t->begin))
			return err_set(&t->err, -EPROTO, "the registry answered with another range of %s than was asked for", t->f->what->digest);
		/* What begins so is compressed in no way, and no tar that anybody makes. */
		if (t->begin == 0 && text_starts(t->q.content_type, "text/html") && data[0] == '<')
			return err_set(&t->err, -EBADMSG, "the blob %s is not what was sent, but a page for people", t->f->what->digest);
	}
	if (t->skip) {
		m = n < t->skip ? n : (size_t)t->skip;
		/* The whole is taken or nothing is: what follows the skipped bytes is put together with them. */
		r = n > m ? fetch_put(t->f, data + m, n - m, t->paused_since && now_seconds() - t->paused_since > PAUSE_MAX, &t->err) : 0;
		if (r == 0)
			t->skip -= m;
	} else {
		bool spool = blob_starving(t->f->blob.pool) || (t->paused_since > 0 && now_seconds() - t->paused_since > PAUSE_MAX);

		r = fetch_put(t->f, data, n, spool, &t->err);
	}
	if (!r && n > m)
		local_write(&t->keep_fd, t->f->got - (n - m), data + m, n - m);
	if (r == -EAGAIN) {
		if (t->paused_since == 0)
			t->paused_since = now_seconds();
	} else {
		t->paused_since = 0;
	}
	return r;
}

static int start(struct transfer *t, struct edera_error *err)
{
	struct registry *r = t->r;
	struct endpoint *e = t->endpoint < r->n_endpoints ? &r->endpoints[t->endpoint] : NULL;
	int rc = 0;

	http_request_reset(&t->q);
	t->q = (struct http_request){ .url = t->url, .max_body = 4096, .data = on_data, .user = t, .range = t->whole ? 0 : t->f->got };
	t->begin = t->f->got;
	t->checked = false;
	t->err = (struct edera_error)EDERA_ERROR_INIT;
	if (e) {
		char path[URL_MAX];

		rc = registry_path(r, e, "blobs", t->f->what->digest, path, err);
		if (!rc)
			rc = registry_refresh(r, e, err);
		if (!rc)
			rc = registry_address(e, path, &t->q, t->url, err);
		t->generation = e->generation;
	} else {
		_free_ char *url = url_join(t->f->what->urls[t->endpoint - r->n_endpoints], ""), *host = url ? url_authority(url) : NULL;

		/* Where http is allowed for the host and for the registry that sends us there, it is here too. */
		t->q.plain = host && registry_plain_host(r, host) && r->endpoints[r->n_endpoints - 1].plain;
		if (!host || !(text_starts(url, "https://") || t->q.plain))
			return err_set(err, -EPROTO, "the layer %s can be had at no address that is allowed", t->f->what->digest);
		strcpy(t->url, url);
	}
	if (!rc)
		rc = http_start(&r->http, &t->q, err);
	t->state = TRANSFER_RUNNING;
	t->total++;
	return rc;
}

/* Another place to get it from, if there is one. */
static bool next_place(struct transfer *t)
{
	unsigned next = t->endpoint + 1;

	if (next >= t->r->n_endpoints && (next - t->r->n_endpoints >= MANIFEST_URLS_MAX || !t->f->what->urls[next - t->r->n_endpoints]))
		return false;
	t->endpoint = next;
	t->tries = t->stalls = t->refused = t->strays = 0;
	t->waited = 0;
	return true;
}

static int give_up(struct transfer *t, struct edera_error *err)
{
	char what[600];

	snprintf(what, sizeof what, "%s/%s, layer %s", t->r->endpoints[t->r->n_endpoints - 1].host, t->r->ref.image.repository, t->f->what->digest);
	if (t->err.code) {
		err_set(err, t->err.code, "%s", t->err.msg);
		registry_explain(&t->q, err);
		return err->code;
	}
	if (t->q.error)
		return err_set(err, t->q.error, "%s: %s", what, t->q.message);
	if (t->q.status != 200 && t->q.status != 206)
		return registry_status_error(t->r, &t->q, what, err);
	err_set(err, -EBADMSG, "%s: it ends after %llu of %llu bytes (status %ld)", what, (unsigned long long)t->f->got, (unsigned long long)t->f->what->size, t->q.status);
	registry_explain(&t->q, err);
	return err->code;
}

static bool is_temporary(struct transfer *t)
{
	const struct http_request *q = &t->q;

	if (q->error)
		return !q->told && q->error != -EPERM && q->error != -EPROTO;
	if (q->status == 416)
		t->whole = true;
	return q->status == 200 || q->status == 206 || q->status == 416 || status_is_temporary(q->status) || registry_is_stray(q, &t->strays);
}

/* Silence is forgiven only to who has brought much before it. Returns whether it got on. */
static bool judge_progress(struct transfer *t)
{
	uint64_t brought = t->f->got - t->begin;

	if (t->q.error != -ETIMEDOUT ? brought > 0 : brought > STALL_FORGIVEN) {
		t->tries = t->stalls = t->refused = t->strays = 0;
		t->waited = 0;
	}
	if (t->q.error == -ETIMEDOUT)
		t->stalls++;
	return brought > 0;
}

static int authenticate(struct transfer *t, struct edera_error *err)
{
	struct endpoint *e = &t->r->endpoints[t->endpoint];
	/* Others that were refused at the same time may have got a new one already. */
	int rc = t->generation != e->generation ? 0 : registry_authenticate(t->r, e, (char *)t->q.challenges.data, t->q.challenges.len, err);

	if (rc && (rc == -ECANCELED || !next_place(t)))
		return err_wrap(err, "layer %s", t->f->what->digest);
	t->state = TRANSFER_WAITING;
	t->not_before = 0;
	return 0;
}

/* The request ended without the whole layer. */
static int failed(struct transfer *t, struct edera_error *err)
{
	struct endpoint *e = t->endpoint < t->r->n_endpoints ? &t->r->endpoints[t->endpoint] : NULL;
	unsigned tries = t->endpoint + 1 >= t->r->n_endpoints ? registry_tries(e, &t->q) : 2;
	bool moved;
	double delay;

	if (t->err.code) /* our own verdict about the bytes */
		return give_up(t, err);
	moved = judge_progress(t);
	if (!t->q.error && t->q.status == 401 && !t->q.away && e && t->refused++ < 2)
		return authenticate(t, err);
	bool temporary = is_temporary(t);

	t->tries++;
	delay = moved && t->tries == 1 ? CUT_PAUSE : retry_delay(t->tries, t->q.retry_after);
	if (temporary && t->tries < tries && t->stalls < STALLS_MAX && t->total < TRIES_TOTAL_MAX && t->waited + delay <= PAUSES_MAX) {
		t->state = TRANSFER_WAITING;
		t->not_before = now_seconds() + delay;
		t->waited += delay;
		return 0;
	}
	if (t->total >= TRIES_TOTAL_MAX || !next_place(t))
		return give_up(t, err);
	t->state = TRANSFER_WAITING;
	t->not_before = 0;
	return 0;
}

static bool is_local(const struct transfer *t) { return t->state == TRANSFER_VERIFYING || t->state == TRANSFER_READING; }

/* A slice of a layer that is on this machine; 1: something was done. What cannot be had here is fetched. */
static int attend_local(struct transfer *t, struct edera_error *err)
{
	int rc;

	if (t->state == TRANSFER_VERIFYING) {
		rc = local_verify(&t->r->local, t->f->what, &t->local);
		if (rc == 0 && fetch_begin(t->f, err))
			return err->code;
		t->state = rc == 0 ? TRANSFER_READING : rc == 1 ? TRANSFER_VERIFYING : TRANSFER_IDLE;
		fetch_is_here(t->f, t->state != TRANSFER_IDLE);
		return 1;
	}
	if (t->crowded && !blob_has_room(&t->f->blob))
		return 0;
	rc = local_read(&t->local, t->f, err);
	t->crowded = rc == -EAGAIN;
	if (t->crowded)
		return 0;
	if (rc == 1 || (rc < 0 && rc != -ENOENT))
		return rc;
	local_close(&t->local);
	if (rc == -ENOENT) {
		t->state = TRANSFER_IDLE;
		fetch_is_here(t->f, false);
		return 1;
	}
	t->state = TRANSFER_DONE;
	rc = fetch_end(t->f, err);
	return rc ? rc : 1;
}

/* One look at a transfer: starts, resumes, ends it. */
static int attend(struct transfer *t, struct edera_error *err)
{
	bool again;

	switch (t->state) {
	case TRANSFER_IDLE:
		if (!t->looked && t->f->what->size) {
			t->looked = true;
			if (!local_open(&t->r->local, t->f->what, &t->local)) {
				t->state = TRANSFER_VERIFYING;
				fetch_is_here(t->f, true);
				return 0;
			}
		}
		if (!t->f->got && fetch_begin(t->f, err))
			return err->code;
		if (t->f->what->size == 0) {
			t->state = TRANSFER_DONE;
			return fetch_end(t->f, err);
		}
		if (!t->f->got)
			t->keep_fd = local_new(&t->r->local, t->f->what);
		return start(t, err);
	case TRANSFER_WAITING:
		return now_seconds() >= t->not_before ? start(t, err) : 0;
	case TRANSFER_RUNNING:
		if (t->q.paused && (blob_has_room(&t->f->blob) || now_seconds() - t->paused_since > PAUSE_MAX ||
				    (!t->f->blob.current && blob_starving(t->f->blob.pool))))
			http_resume(&t->q);
		if (!t->q.done)
			return 0;
		again = t->endpoint < t->r->n_endpoints && registry_other_scheme(&t->r->endpoints[t->endpoint], &t->q);
		if (t->f->got < t->f->what->size || t->err.code) {
			if (!again)
				return failed(t, err);
			t->state = TRANSFER_WAITING;
			t->not_before = 0;
			return 0;
		}
		t->state = TRANSFER_DONE;
		t->r->good = t->endpoint < t->r->n_endpoints ? t->endpoint : t->r->good;
		if (fetch_end(t->f, err)) {
			registry_explain(&t->q, err);
			return err->code;
		}
		http_request_reset(&t->q);
		local_kept(&t->r->local, t->f->what, &t->keep_fd);
		return 0;
	case TRANSFER_VERIFYING:
	case TRANSFER_READING:
	case TRANSFER_DONE:
		break;
	}
	return 0;
}

static void wake(void *user) { http_wake(user); }

static int run(struct registry *r, struct transfer *list, uint32_t n, struct edera_error *err)
{
	uint32_t first = 0;

	while (first < n) {
		unsigned active = 0, local = 0;
		bool busy = false;

		for (uint32_t i = first; i < n && active < r->options->downloads && local < LOCAL_MAX; i++) {
			/* Of those that are read here, the most urgent one that can get on has its slice; then the network's turn comes. */
			int rc = !is_local(&list[i]) ? attend(&list[i], err) : busy ? 0 : attend_local(&list[i], err);

			if (rc < 0)
				return rc;
			busy |= rc == 1;
			local += is_local(&list[i]);
			active += list[i].state != TRANSFER_DONE && !is_local(&list[i]);
		}
		while (first < n && list[first].state == TRANSFER_DONE)
			first++;
		if (first < n) {
			int rc = http_step(&r->http, busy ? 0 : 200, err);

			if (rc)
				return rc;
		}
	}
	return 0;
}

int registry_fetch(struct source *s, struct fetch **list, uint32_t n, struct edera_error *err)
{
	struct registry *r = (struct registry *)s;
	struct transfer *t = calloc(n ? n : 1, sizeof *t);
	int rc;

	if (!t)
		return err_errno(err, -ENOMEM, "cannot fetch layers");
	for (uint32_t i = 0; i < n; i++) {
		t[i].r = r;
		t[i].f = list[i];
		t[i].endpoint = r->good;
		t[i].local.fd = t[i].keep_fd = -1;
		list[i]->blob.pool->wake = wake;
		list[i]->blob.pool->user = &r->http;
	}
	rc = run(r, t, n, err);
	for (uint32_t i = 0; i < n; i++) {
		http_request_reset(&t[i].q);
		local_close(&t[i].local);
		close_fd(&t[i].keep_fd);
	}
	if (n)
		list[0]->blob.pool->wake = NULL;
	free(t);
	return rc;
}
