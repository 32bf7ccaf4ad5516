/* SPDX-License-Identifier: Apache-2.0 */
#include "image_config.h"

#include "base/cleanup.h"
#include "base/text.h"
#include <json.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#define MAX_BYTES (4u << 20)
#define MAX_ITEMS 4096u
#define MAX_DEPTH 32

static void free_list(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

void image_config_free(struct image_config *c)
{
	free_list(c->env);
	free_list(c->entrypoint);
	free_list(c->cmd);
	free(c->user);
	free(c->working_dir);
	*c = (struct image_config){ 0 };
}

static void put_json(json_object **o) { json_object_put(*o); }
static void free_tokener(json_tokener **t) { if (*t) json_tokener_free(*t); }

/* A string without NUL, or NULL. */
static const char *text_of(const json_object *o)
{
	const char *s = json_object_is_type(o, json_type_string) ? json_object_get_string((json_object *)o) : NULL;

	return s && text_valid_utf8(s, (size_t)json_object_get_string_len(o)) ? s : NULL;
}

static int take_list(const json_object *config, const char *key, char ***ret, struct edera_error *err)
{
	json_object *o = NULL;
	size_t n;
	char **v;

	if (!json_object_object_get_ex(config, key, &o) || !o)
		return 0;
	n = json_object_is_type(o, json_type_array) ? json_object_array_length(o) : MAX_ITEMS + 1;
	if (n > MAX_ITEMS)
		return err_set(err, -EINVAL, "cannot use the image's configuration: %s is not a list of at most %u strings", key, MAX_ITEMS);
	v = calloc(n + 1, sizeof *v);
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	*ret = v;
	for (size_t i = 0; i < n; i++) {
		const char *s = text_of(json_object_array_get_idx(o, i));

		v[i] = s ? strdup(s) : NULL;
		if (!v[i])
			return err_set(err, -EINVAL, "cannot use the image's configuration: an element of %s is not a string", key);
	}
	return 0;
}

static int take_text(const json_object *config, const char *key, char **ret, struct edera_error *err)
{
	json_object *o = NULL;
	const char *s = "";

	if (config && json_object_object_get_ex(config, key, &o) && o)
		s = text_of(o);
	if (!s)
		return err_set(err, -EINVAL, "cannot use the image's configuration: %s is not a string", key);
	*ret = strdup(s);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* "SIGTERM", "TERM", "15", "RTMIN+3" */
static int signal_number(const char *s)
{
	uint64_t n;

	if (!text_parse_u64(s, 1, 64, &n))
		return (int)n;
	if (text_starts(s, "SIG"))
		s += 3;
	if (text_starts(s, "RTMIN"))
		return !s[5] ? SIGRTMIN : s[5] == '+' && !text_parse_u64(s + 6, 0, 30, &n) ? SIGRTMIN + (int)n : 0;
	for (int i = 1; i < SIGRTMIN; i++) {
		const char *name = sigabbrev_np(i);

		if (name && !strcmp(name, s))
			return i;
	}
	return 0;
}

int image_config_parse(const void *json, size_t len, struct image_config *ret, struct edera_error *err)
{
	_cleanup_(free_tokener) json_tokener *t = json_tokener_new_ex(MAX_DEPTH);
	_cleanup_(put_json) json_object *root = NULL;
	struct image_config c = { 0 };
	json_object *config = NULL;
	char *stop = NULL;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	if (len > MAX_BYTES)
		return err_set(err, -EFBIG, "cannot use the image's configuration: it is larger than %u bytes", MAX_BYTES);
	if (len) {
		root = json_tokener_parse_ex(t, json, (int)len);
		if (!root && json_tokener_get_error(t) == json_tokener_continue)
			return err_set(err, -EINVAL, "cannot parse the image's configuration: it ends in the middle");
		if (!json_object_is_type(root, json_type_object))
			return err_set(err, -EINVAL, "cannot parse the image's configuration: %s",
				       root ? "not an object" : json_tokener_error_desc(json_tokener_get_error(t)));
		json_object_object_get_ex(root, "config", &config);
		if (config && !json_object_is_type(config, json_type_object))
			return err_set(err, -EINVAL, "cannot use the image's configuration: config is not an object");
	}
	if ((config && (take_list(config, "Env", &c.env, err) || take_list(config, "Entrypoint", &c.entrypoint, err) || take_list(config, "Cmd", &c.cmd, err))) ||
	    take_text(config, "User", &c.user, err) || take_text(config, "WorkingDir", &c.working_dir, err) ||
	    take_text(config, "StopSignal", &stop, err)) {
		image_config_free(&c);
		return err ? err->code : -EINVAL;
	}
	c.stop_signal = signal_number(stop);
	free(stop);
	*ret = c;
	return 0;
}
