/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests on one libcurl multi handle, used by one thread. Everything is bounded: time without progress, redirects,
 * header and body bytes. Redirects are followed here: credentials stay with the origin they are for, and never appear in a URL. */
#ifndef PROVIDER_HTTP_H
#define PROVIDER_HTTP_H

#include <curl/curl.h>
#include <stdbool.h>
#include "base/buf.h"
#include "base/error.h"

#define HTTP_STALL_SECONDS 18      /* a request that moves less than a trickle for so long has failed */
#define HTTP_CONNECT_SECONDS 10
#define HTTP_BRIEF_SECONDS 3
#define HTTP_REDIRECTS_MAX 10
#define HTTP_WHOLE_SECONDS 60      /* for an answer that is kept whole, and for the redirects before one that is not */
#define HTTP_PAGE_MAX (64u << 10)  /* of a body that nobody wants: a redirect's, the rest of an error page */
#define HTTP_HEADERS_MAX (64u << 10)

struct http_options {
	const char *proxy;      /* NULL: what the environment says */
	struct buf ca;          /* PEM certificates beside the system's, or empty */
	struct buf cert, key;   /* of the client, PEM, or empty */
};

struct http {
	CURLM *multi;
	struct http_options options;
	struct http_request *running; /* list */
	bool aborted;           /* set by another thread, then http_wake() */
};

/* One request and its answer. Set up, start, step until done; reusable after http_request_reset. */
struct http_request {
	/* Given. */
	const char *url;
	const char *accept;            /* value of the header, or NULL */
	const char *authorization;     /* value of the header, or NULL */
	const char *post;              /* form body: makes it a POST */
	uint64_t range;                /* first byte wanted, 0 = all */
	size_t max_body;               /* for bodies kept here */
	bool plain;                    /* http:// is allowed, also after redirects */
	bool unverified;               /* any certificate will do, at this origin */
	bool certified;                /* the client's certificate is shown, at this origin */
	bool brief;                    /* to find out whether anybody is there: a short time to connect */
	/* Streamed bodies of 200 and 206 go here: 0 taken, -EAGAIN wait (then http_resume), else the request fails. */
	int (*data)(void *user, const uint8_t *data, size_t n);
	void *user;
	/* Answer. */
	bool done;
	int error;                     /* negative errno when there was no complete answer */
	char message[320];             /* then: why */
	long status;
	struct buf body;
	bool tls;                      /* a server that speaks TLS was there, whatever came of it */
	bool away;                     /* it came from another origin than url's, after a redirect */
	char content_type[128], content_encoding[32], link[2048], content_range[96], retry_after[64];
	struct buf challenges;         /* values of WWW-Authenticate, one a line */
	/* Inside. */
	CURL *easy;
	struct curl_slist *headers;
	struct http_request *next;
	struct http *http;
	bool paused;
	bool told;                     /* the verdict is our own: what libcurl says counts no more */
	bool in_body;
	bool enough;                   /* of the body; the answer counts as complete */
	size_t header_bytes, page_bytes;
	char *at;                      /* where redirects have led, or NULL */
	struct buf location;
	unsigned hops;
	double began;
	char error_text[CURL_ERROR_SIZE];
};

double now_seconds(void); /* of the monotonic clock */

int http_init(struct http *, const struct http_options *, struct edera_error *);
void http_free(struct http *);
void http_wake(struct http *); /* any thread: makes http_step return soon */

int http_start(struct http *, struct http_request *, struct edera_error *);
/* Moves everything that runs on, waiting up to ms for something to do. -ECANCELED once aborted. */
int http_step(struct http *, int ms, struct edera_error *);
/* Start and step until this one is done. */
int http_run(struct http *, struct http_request *, struct edera_error *);
void http_resume(struct http_request *);
void http_request_reset(struct http_request *); /* ends it if it runs, frees the answer, keeps what was given */

#endif
