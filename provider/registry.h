/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the registry source: endpoints (mirrors first, the registry itself last), authentication, retries. */
#ifndef PROVIDER_REGISTRY_H
#define PROVIDER_REGISTRY_H

#include "auth.h"
#include "http.h"
#include "local.h"
#include "source.h"
#include "url.h"

#define ENDPOINTS_MAX 4
#define TRIES_MAX 5             /* of one request at the registry itself */
#define TRIES_UNREACHABLE 3     /* where nobody listens, nor has in this pull */
#define STALLS_MAX 3            /* of these, how many may be for silence: 3 x 18 s, what libcurl takes to see it, and the pauses stay below 90 s */
#define STALL_FORGIVEN (64u << 20) /* bytes of a try that make up for its silence */
#define STRAYS_MAX 3            /* refusals from where a registry leads to */
#define CUT_PAUSE 0.1           /* seconds, after a cut that came behind some bytes */
#define TRIES_TOTAL_MAX 120     /* of one blob, when each brings some bytes */
#define RETRY_AFTER_MAX 60      /* seconds of one pause */
#define PAUSES_MAX 61           /* seconds of all pauses between tries that brought nothing */

/* Which scheme an endpoint speaks is as configured; where http is allowed, it may turn out to be https all the same. */
enum scheme { SCHEME_OPEN, SCHEME_TRYING_TLS, SCHEME_SETTLED };

struct endpoint {
	char host[255 + 1];
	bool plain;                 /* http */
	bool unverified;            /* https without a certificate that could be checked is allowed */
	enum scheme scheme;
	bool mirror;
	struct credentials credentials;
	char *authorization;        /* value of the header, or NULL */
	unsigned generation;        /* of the authorization: how often it was renewed */
	double expires;             /* of the authorization, by now_seconds(); 0: never */
	struct challenge challenge; /* how the authorization was got; to renew it */
};

struct registry {
	struct source source;
	struct origin ref;
	const struct options *options;
	struct http http;
	struct local local;
	struct endpoint endpoints[ENDPOINTS_MAX];
	unsigned n_endpoints;
	unsigned good;              /* the endpoint that answered last */
	bool http_ready;
};

/* How long to wait before try number `try` (from 1), or as the server said. */
double retry_delay(unsigned try, const char *retry_after);
bool status_is_temporary(long status);

/* Gets (or renews) an authorization by the challenges of a 401; -EACCES with a sentence when it is refused. */
int registry_authenticate(struct registry *, struct endpoint *, const char *challenges, size_t len, struct edera_error *);
/* Renews one that is about to expire; no authorization is fine. */
int registry_refresh(struct registry *, struct endpoint *, struct edera_error *);

/* Reads and checks what the options name of certificates and keys. */
int registry_read_tls(const struct options *, struct http_options *, struct edera_error *);
/* "/v2/NAME/KIND/WHAT", as the endpoint wants it. */
int registry_path(const struct registry *, const struct endpoint *, const char *kind, const char *what, char ret[URL_MAX], struct edera_error *);
/* Sets up a request to an endpoint: q's url (into url), authorization and protection. */
int registry_address(struct endpoint *, const char *path, struct http_request *q, char url[URL_MAX], struct edera_error *);
/* Refused by a host that the registry led to: an address may be good for some minutes only, and the registry gives another. */
bool registry_is_stray(const struct http_request *q, unsigned *strays);
/* After the first answers of an endpoint that may speak http: true to ask once more, with the other scheme. */
bool registry_other_scheme(struct endpoint *, const struct http_request *q);
/* How often in all a request that failed so is made: a registry that has answered may be starting again. The endpoint may be NULL. */
unsigned registry_tries(const struct endpoint *, const struct http_request *q);
/* One request at one endpoint, with authentication and retries: 0 with a 200 answer in q, else an error that says what happened.
 * Of q, accept and max_body are given. */
int registry_request(struct registry *, struct endpoint *, const char *path, struct http_request *q, unsigned tries, const char *what, struct edera_error *);
/* The same thing from each endpoint in turn, the one that answered last first. */
int registry_get(struct registry *, const char *kind, const char *what, const char *accept, size_t max, struct http_request *q, struct edera_error *);
/* The sentence for an answer that is not 200. */
int registry_status_error(const struct registry *, const struct http_request *q, const char *what, struct edera_error *);
/* Bytes that are not the ones asked for: what the answer's headers say about them is added. */
void registry_explain(const struct http_request *q, struct edera_error *err);
/* Servers repeat what they were sent: takes credentials out of a text, in place. */
void registry_conceal(const struct registry *, char *text);
/* May this "host[:port]" be spoken to over http? */
bool registry_plain_host(const struct registry *, const char *host);
/* Is it configured as insecure? */
bool registry_insecure_host(const struct registry *, const char *host);

int registry_tags(struct source *, int (*tag)(void *, const char *), void *user, struct edera_error *);
int registry_fetch(struct source *, struct fetch **list, uint32_t n, struct edera_error *);

#endif
