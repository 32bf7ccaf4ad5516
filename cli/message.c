/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"

#include <string.h>

void *message_new(const ProtobufCMessageDescriptor *d)
{
	ProtobufCMessage *m = need(calloc(1, d->sizeof_message));

	protobuf_c_message_init(d, m);
	return m;
}

void message_set(char **field, const char *value)
{
	if (value)
		*field = need(strdup(value));
}

static void grow(void *field, size_t n)
{
	void **array = *(void ***)field;

	*(void ***)field = need(reallocarray(array, n + 1, sizeof *array));
}

void *message_add(void *field, size_t *n, const ProtobufCMessageDescriptor *d)
{
	grow(field, *n);
	return (*(void ***)field)[(*n)++] = message_new(d);
}

void message_add_string(char ***field, size_t *n, const char *value)
{
	grow(field, *n);
	(*field)[(*n)++] = need(strdup(value));
}

int message_add_environment(Protect__Control__V1__ProcessSpec *p, const struct strings *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		const char *pair = pairs->v[i], *equals = strchr(pair, '='), *value = equals ? equals + 1 : getenv(pair);
		Protect__Control__V1__EnvironmentVariableSpec *e;

		if (!*pair || equals == pair)
			return cli_bad_usage("--env takes KEY=VALUE, not '%s'", pair);
		if (!value)
			continue;
		e = message_add(&p->environment, &p->n_environment, &protect__control__v1__environment_variable_spec__descriptor);
		e->key = need(strndup(pair, equals ? (size_t)(equals - pair) : strlen(pair)));
		message_set(&e->value, value);
	}
	return 0;
}

int message_add_annotations(Protect__Control__V1__AnnotationSpec ***field, size_t *n, const struct strings *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		const char *pair = pairs->v[i], *equals = strchr(pair, '=');
		Protect__Control__V1__AnnotationSpec *a;

		if (!equals || equals == pair)
			return cli_bad_usage("--annotation takes KEY=VALUE, not '%s'", pair);
		a = message_add(field, n, &protect__control__v1__annotation_spec__descriptor);
		a->key = need(strndup(pair, (size_t)(equals - pair)));
		message_set(&a->value, equals + 1);
	}
	return 0;
}

static Protect__Control__V1__IdOrNameValue *id_or_name(const char *s)
{
	Protect__Control__V1__IdOrNameValue *v = message_new(&protect__control__v1__id_or_name_value__descriptor);
	uint64_t id;

	if (text_parse_u64(s, 0, UINT32_MAX, &id)) {
		v->id_or_name_case = PROTECT__CONTROL__V1__ID_OR_NAME_VALUE__ID_OR_NAME_NAME;
		v->name = need(strdup(s));
	} else {
		v->id_or_name_case = PROTECT__CONTROL__V1__ID_OR_NAME_VALUE__ID_OR_NAME_ID;
		v->id = (uint32_t)id;
	}
	return v;
}

void message_set_user(Protect__Control__V1__ProcessSpec *p, const char *user)
{
	const char *colon = strchr(user, ':');
	_free_ char *name = need(strndup(user, colon ? (size_t)(colon - user) : strlen(user)));

	if (*name)
		p->user = id_or_name(name);
	if (colon && colon[1])
		p->group = id_or_name(colon + 1);
}
