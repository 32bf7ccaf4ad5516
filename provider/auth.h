/* SPDX-License-Identifier: Apache-2.0 */
/* Who we are to a registry: docker's auth.json, and the challenges registries answer with. */
#ifndef PROVIDER_AUTH_H
#define PROVIDER_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include "json.h"

#define AUTH_FILE_MAX (1u << 20)

/* Strings are malloc'd or NULL. */
struct credentials {
	char *user, *password;
	char *identity_token; /* a refresh token for the token server */
	char *registry_token; /* a bearer token as it is */
};

void credentials_free(struct credentials *);
/* The entry of an auth.json for a registry and repository; 0 with an empty *ret if there is none. */
int auth_lookup(json_object *file, const char *host, const char *path, struct credentials *ret, struct edera_error *);
/* "user:password" in base64, for Basic; the caller frees. */
char *auth_basic(const struct credentials *);
/* The registry a key of an auth.json is about: without scheme and path, docker.io for all its names. */
void auth_key_host(const char *key, char *dst, size_t cap);

struct challenge {
	bool bearer, basic;
	char realm[1024], service[256], scope[1024];
};

/* WWW-Authenticate values, one a line. Bearer's parameters are kept, Basic's realm means nothing to us. */
void challenge_parse(const char *lines, size_t len, struct challenge *ret);

#endif
