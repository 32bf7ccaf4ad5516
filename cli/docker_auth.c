/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/docker_auth.h"
#include "base/buf.h"
#include "base/oci_auth.h"
#include "base/path.h"
#include "base/reference.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef Protect__Control__V1__OciRegistryAuthentication Message;

static const char *member(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
		return NULL;
	return *json_object_get_string(v) ? json_object_get_string(v) : NULL;
}

/* One entry of "auths" as the protocol has it; the kinds in order of how much they say. 1 if there is something in it. */
static int take(struct json_object *entry, struct docker_auth *a)
{
	const char *name = member(entry, "username"), *password = member(entry, "password");
	Message *m = &a->message;

	if ((m->identity_token = (char *)member(entry, "identitytoken"))) {
		m->authentication_method_case = PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_IDENTITY_TOKEN;
	} else if ((m->registry_token = (char *)member(entry, "registrytoken"))) {
		m->authentication_method_case = PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_REGISTRY_TOKEN;
	} else if (name && password) {
		protect__control__v1__oci_registry_username_password__init(&a->pair);
		a->pair.username = (char *)name;
		a->pair.password = (char *)password;
		m->username_password = &a->pair;
		m->authentication_method_case = PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_USERNAME_PASSWORD;
	} else if ((m->raw_basic_auth = (char *)member(entry, "auth"))) {
		m->authentication_method_case = PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_RAW_BASIC_AUTH;
	}
	return m->authentication_method_case != 0;
}

static int config_file(char path[PATH_CAP], struct edera_error *err)
{
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");

	if (dir && *dir)
		return path_format(path, err, "%s/config.json", dir);
	return home && *home ? path_format(path, err, "%s/.docker/config.json", home) : -ENOENT;
}

int docker_auth_find(const char *text, struct docker_auth *ret, struct edera_error *err)
{
	char file[PATH_CAP];
	struct reference reference;
	struct oci_auth_request q = { .file = file, .helpers = true, .helper_path = getenv("PATH"), .helper_env = (const char *const *)environ };
	struct buf json _buf_ = BUF_INIT;
	int r;

	*ret = (struct docker_auth){ 0 };
	protect__control__v1__oci_registry_authentication__init(&ret->message);
	reference_from_containerd(&text);
	/* What is no registry's needs none; what is no reference the daemon says better. */
	if (text_starts(text, "oci:") || reference_parse(text, &reference, NULL))
		return 0;
	r = config_file(file, err);
	if (r)
		return r == -ENOENT ? 0 : r;
	q.registry = reference.registry;
	r = oci_auth_collect(&q, &json, err);
	if (r || !json.len)
		return r;
	ret->found = json_tokener_parse((char *)json.data);
	explicit_bzero(json.data, json.len);
	r = 0;
	/* The last one said is a helper's, where there is one. */
	json_object_object_foreach(json_object_object_get(ret->found, "auths"), key, entry) {
		(void)key;
		r = take(entry, ret);
	}
	return r;
}

void docker_auth_free(struct docker_auth *a)
{
	json_object_put(a->found);
	*a = (struct docker_auth){ 0 };
}
