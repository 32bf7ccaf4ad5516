/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the registry source: endpoints (mirrors first, the registry itself last), authentication, retries. */
#ifndef PROVIDER_REGISTRY_H
#define PROVIDER_REGISTRY_H

#include "auth.h"
#include "http.h"
#include "local.h"
#include "source.h"

#define ENDPOINTS_MAX 4
#define URL_MAX 8192
#define TRIES_MAX 5             /* of one request at the registry itself */
#define TRIES_UNREACHABLE 3     /* where nobody listens */
#define STALLS_MAX 3            /* of these, how many may be for silence: 3 x 20 s and the pauses stay below 90 s */
#define TRIES_TOTAL_MAX 50      /* of one blob, when each brings some bytes */
#define RETRY_AFTER_MAX 60      /* seconds */

struct endpoint {
	char host[255 + 1];
	bool plain;                 /* http */
	bool mirror;
	struct credentials credentials;
	char *authorization;        /* value of the header, or NULL */
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

double now_seconds(void);
/* How long to wait before try number `try` (from 1), or as the server said. */
double retry_delay(unsigned try, const char *retry_after);
bool status_is_temporary(long status);

/* Gets (or renews) an authorization by the challenges of a 401; -EACCES with a sentence when it is refused. */
int registry_authenticate(struct registry *, struct endpoint *, const char *challenges, size_t len, struct edera_error *);
/* Renews one that is about to expire; no authorization is fine. */
int registry_refresh(struct registry *, struct endpoint *, struct edera_error *);

int registry_url(const struct registry *, const struct endpoint *, const char *kind, const char *what, char ret[URL_MAX], struct edera_error *);
/* One request at one endpoint, with authentication and retries: 0 with a 200 answer in q, else an error that says what happened. */
int registry_request(struct registry *, struct endpoint *, struct http_request *q, unsigned tries, const char *what, struct edera_error *);
/* The sentence for an answer that is not 200. */
int registry_status_error(const struct http_request *q, const char *what, struct edera_error *);

int registry_fetch(struct source *, struct fetch **list, uint32_t n, struct edera_error *);

#endif
