/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from outside: bounded in depth, values and bytes before json-c builds anything. */
#ifndef PROVIDER_JSON_H
#define PROVIDER_JSON_H

#include <json-c/json.h>
#include "base/error.h"

#define JSON_DEPTH_MAX 32
#define JSON_VALUES_MAX 100000

static inline void json_put_ptr(json_object **o) { json_object_put(*o); }
#define _json_ __attribute__((cleanup(json_put_ptr)))

/* One whole object or array. */
int json_read(const void *text, size_t len, json_object **ret, struct edera_error *);
/* Members, or NULL / fallback where they are missing or of another type. Borrowed. */
json_object *json_member(json_object *, const char *key, enum json_type);
const char *json_text(json_object *, const char *key); /* NULL also for a string with a NUL byte in it */
int64_t json_number(json_object *, const char *key, int64_t fallback);

#endif
