/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's own credentials for a registry, from docker's configuration and its credential helpers. The daemon has others of
 * its own; it must not read files of whoever calls it. */
#ifndef CLI_DOCKER_AUTH_H
#define CLI_DOCKER_AUTH_H

#include <json-c/json.h>
#include "protect/control/v1/common.pb-c.h"
#include "base/error.h"

struct docker_auth {
	Protect__Control__V1__OciRegistryAuthentication message;
	Protect__Control__V1__OciRegistryUsernamePassword pair;
	struct json_object *found; /* what the messages point into */
};

/* 1 if credentials were found, 0 if there are none; a helper or a file that cannot be used is an error. */
int docker_auth_find(const char *reference, struct docker_auth *ret, struct edera_error *);
void docker_auth_free(struct docker_auth *);

#endif
