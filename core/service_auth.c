/* SPDX-License-Identifier: Apache-2.0 */
#include "service_auth.h"
#include "base/reference.h"

#include <json-c/json.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static char *base64(const char *user, const char *password)
{
	_buf_ struct buf plain = BUF_INIT;
	char *out;

	buf_printf(&plain, "%s:%s", user, password);
	out = plain.failed ? NULL : calloc(1, plain.len * 2 + 8);
	if (out)
		EVP_EncodeBlock((unsigned char *)out, plain.data, (int)plain.len);
	if (plain.data)
		explicit_bzero(plain.data, plain.len);
	return out;
}

static struct json_object *entry(const PB(OciRegistryAuthentication) *a)
{
	struct json_object *e = json_object_new_object();
	char *b64;

	switch (a->authentication_method_case) {
	case PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_USERNAME_PASSWORD:
		b64 = base64(a->username_password->username, a->username_password->password);
		json_object_object_add(e, "auth", json_object_new_string(b64 ? b64 : ""));
		if (b64)
			explicit_bzero(b64, strlen(b64));
		free(b64);
		break;
	case PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_RAW_BASIC_AUTH:
		json_object_object_add(e, "auth", json_object_new_string(a->raw_basic_auth));
		break;
	case PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_IDENTITY_TOKEN:
		json_object_object_add(e, "identitytoken", json_object_new_string(a->identity_token));
		break;
	case PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_REGISTRY_TOKEN:
		json_object_object_add(e, "registrytoken", json_object_new_string(a->registry_token));
		break;
	default:
		json_object_put(e);
		return NULL;
	}
	return e;
}

int service_auth_json(const PB(OciRegistryAuthentication) *a, const char *reference, char **ret, struct edera_error *err)
{
	struct json_object *root, *auths, *e;
	struct reference ref;
	int r;

	reference_from_containerd(&reference); /* what containerd lacks comes from the registry */
	r = reference_parse(reference, &ref, err);
	if (r)
		return r;
	e = entry(a);
	if (!e)
		return 0;
	root = json_object_new_object();
	auths = json_object_new_object();
	json_object_object_add(auths, !strcmp(ref.registry, "docker.io") ? "https://index.docker.io/v1/" : ref.registry, e);
	json_object_object_add(root, "auths", auths);
	*ret = strdup(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN));
	json_object_put(root);
	return *ret ? 0 : err_errno(err, -ENOMEM, "cannot hold the credentials for '%s'", ref.registry);
}
