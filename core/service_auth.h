/* SPDX-License-Identifier: Apache-2.0 */
/* Registry credentials of a request, in the form the provider takes (docker's auth.json, one registry). */
#ifndef CORE_SERVICE_AUTH_H
#define CORE_SERVICE_AUTH_H

#include "pb.h"
#include "base/error.h"

/* *ret: malloc'd JSON, to be wiped and freed; NULL where the request names no method. */
int service_auth_json(const PB(OciRegistryAuthentication) *, const char *reference, char **ret, struct edera_error *);

#endif
