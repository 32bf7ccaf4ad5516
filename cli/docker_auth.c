/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/docker_auth.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/text.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CONFIG_MAX (1u << 20)
#define HELPER_NS (60ll * 1000000000)

extern char **environ;

void docker_auth_host(const char *reference, char *dst, size_t size)
{
	const char *slash = strchr(reference, '/');
	size_t n = slash ? (size_t)(slash - reference) : 0;

	*dst = 0;
	if (text_starts(reference, "oci:"))
		return;
	/* As docker does it: the first part is a host if it looks like one. */
	if (n && (memchr(reference, '.', n) || memchr(reference, ':', n) || (n == 9 && !memcmp(reference, "localhost", 9))))
		snprintf(dst, size, "%.*s", (int)n, reference);
	else
		snprintf(dst, size, "docker.io");
	if (!strcmp(dst, "index.docker.io") || !strcmp(dst, "registry-1.docker.io"))
		snprintf(dst, size, "docker.io");
}

/* Entries are named "ghcr.io", "https://ghcr.io", "https://index.docker.io/v1/". */
static bool entry_is(const char *entry, const char *host)
{
	const char *start = text_starts(entry, "https://") ? entry + 8 : text_starts(entry, "http://") ? entry + 7 : entry;
	size_t n = strcspn(start, "/");

	if (!strcmp(host, "docker.io"))
		return (n == 9 && !memcmp(start, "docker.io", 9)) || (n == 15 && !memcmp(start, "index.docker.io", 15)) ||
		       (n == 20 && !memcmp(start, "registry-1.docker.io", 20));
	return strlen(host) == n && !memcmp(start, host, n);
}

static struct json_object *find_entry(struct json_object *config, const char *section, const char *host)
{
	struct json_object *entries = NULL;

	if (!json_object_object_get_ex(config, section, &entries) || !json_object_is_type(entries, json_type_object))
		return NULL;
	json_object_object_foreach(entries, key, value)
		if (entry_is(key, host))
			return value;
	return NULL;
}

static const char *member(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
		return NULL;
	return *json_object_get_string(v) ? json_object_get_string(v) : NULL;
}

static void set_pair(struct docker_auth *a, const char *name, const char *password)
{
	protect__control__v1__oci_registry_username_password__init(&a->pair);
	a->pair.username = a->first = need(strdup(name));
	a->pair.password = a->second = need(strdup(password));
	a->message.authentication_method_case = PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_USERNAME_PASSWORD;
	a->message.username_password = &a->pair;
}

static void set_one(struct docker_auth *a, int which, const char *value)
{
	a->message.authentication_method_case = which;
	/* The members of the union are all char pointers here. */
	a->message.raw_basic_auth = a->first = need(strdup(value));
}

static int from_entry(struct json_object *entry, struct docker_auth *a)
{
	const char *name = member(entry, "username"), *password = member(entry, "password"), *v;

	v = member(entry, "identitytoken");
	if (v) {
		set_one(a, PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_IDENTITY_TOKEN, v);
		return 1;
	}
	v = member(entry, "registrytoken");
	if (v) {
		set_one(a, PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_REGISTRY_TOKEN, v);
		return 1;
	}
	if (name && password) {
		set_pair(a, name, password);
		return 1;
	}
	v = member(entry, "auth");
	if (v) {
		set_one(a, PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_RAW_BASIC_AUTH, v);
		return 1;
	}
	return 0;
}

static int find_program(const char *name, char dst[PATH_CAP])
{
	const char *path = getenv("PATH");

	for (const char *at = path && *path ? path : "/usr/local/bin:/usr/bin:/bin"; *at;) {
		size_t n = strcspn(at, ":");

		if (n && *at == '/' && !path_format(dst, NULL, "%.*s/%s", (int)n, at, name) && access(dst, X_OK) == 0)
			return 0;
		at += n + (at[n] == ':');
	}
	return -ENOENT;
}

static int64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Runs "docker-credential-NAME get" with the server on its stdin. Files in memory, so that neither side waits for the other. */
static int run_helper(const char *helper, const char *server, struct buf *out, int *ret_status, struct edera_error *err)
{
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1, .deadline_ns = monotonic_ns() + HELPER_NS };
	_close_ int in = memfd_create("server", MFD_CLOEXEC), answer = memfd_create("answer", MFD_CLOEXEC);
	char name[128], path[PATH_CAP], chunk[4096];
	const char *argv[] = { path, "get", NULL };
	int fds[2] = { in, answer }, pidfd, r;
	ssize_t n;
	pid_t pid;
	struct edera_spawn s = { .size = sizeof s, .argv = argv, .envp = (const char *const *)environ, .fds = fds, .n_fds = 2 };

	if (in < 0 || answer < 0)
		return err_errno(err, -errno, "cannot run a credential helper");
	snprintf(name, sizeof name, "docker-credential-%s", helper);
	if (strchr(helper, '/') || find_program(name, path))
		return err_set(err, -ENOENT, "docker's configuration asks for the credential helper '%s', which is not installed", name);
	if (write(in, server, strlen(server)) != (ssize_t)strlen(server) || lseek(in, 0, SEEK_SET) < 0)
		return err_errno(err, -errno, "cannot run the credential helper '%s'", name);
	r = spawn(&s, &pidfd, &pid, err);
	if (!r)
		r = spawn_wait(pidfd, pid, &call, ret_status, err);
	if (r)
		return err_wrap(err, "credential helper '%s'", name);
	for (off_t at = 0; (n = pread(answer, chunk, sizeof chunk, at)) > 0 && at < (off_t)CONFIG_MAX; at += n)
		buf_append(out, chunk, (size_t)n);
	return 0;
}

static int from_helper(const char *helper, const char *host, struct docker_auth *a, struct edera_error *err)
{
	const char *server = strcmp(host, "docker.io") ? host : "https://index.docker.io/v1/";
	struct buf out _buf_ = BUF_INIT;
	const char *name, *secret, *text;
	struct json_object *o;
	int status = 0, r;

	r = run_helper(helper, server, &out, &status, err);
	if (r)
		return r;
	text = out.data ? (const char *)out.data : "";
	if (status) {
		/* That it knows none is an answer, not a failure. */
		if (strstr(text, "not found"))
			return 0;
		return err_set(err, -EIO, "the credential helper 'docker-credential-%s' failed for '%s': %.200s", helper, server, text);
	}
	o = json_tokener_parse(text);
	name = member(o, "Username");
	secret = member(o, "Secret");
	r = 0;
	if (secret && name) {
		if (!strcmp(name, "<token>"))
			set_one(a, PROTECT__CONTROL__V1__OCI_REGISTRY_AUTHENTICATION__AUTHENTICATION_METHOD_IDENTITY_TOKEN, secret);
		else
			set_pair(a, name, secret);
		r = 1;
	}
	json_object_put(o);
	return r;
}

static int read_config(struct json_object **ret, struct edera_error *err)
{
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	struct buf text _buf_ = BUF_INIT;
	char path[PATH_CAP];
	int r;

	if (dir && *dir)
		r = path_format(path, err, "%s/config.json", dir);
	else if (home && *home)
		r = path_format(path, err, "%s/.docker/config.json", home);
	else
		return -ENOENT;
	if (!r)
		r = path_read_file(path, CONFIG_MAX, &text, err);
	if (r)
		return r;
	*ret = json_tokener_parse(text.data ? (const char *)text.data : "");
	if (!json_object_is_type(*ret, json_type_object)) {
		json_object_put(*ret);
		return err_set(err, -EINVAL, "'%s' is not docker's configuration: it is not a JSON object", path);
	}
	return 0;
}

int docker_auth_find(const char *reference, struct docker_auth *ret, struct edera_error *err)
{
	struct json_object *config = NULL, *helper, *entry;
	const char *name = NULL;
	char host[256];
	int r;

	*ret = (struct docker_auth){ 0 };
	protect__control__v1__oci_registry_authentication__init(&ret->message);
	docker_auth_host(reference, host, sizeof host);
	if (!*host)
		return 0;
	r = read_config(&config, err);
	if (r)
		return r == -ENOENT || r == -ENOTDIR || r == -EACCES ? 0 : r;
	helper = find_entry(config, "credHelpers", host);
	entry = find_entry(config, "auths", host);
	name = json_object_is_type(helper, json_type_string) ? json_object_get_string(helper) : member(config, "credsStore");
	r = entry ? from_entry(entry, ret) : 0;
	/* An entry with nothing in it says that a helper has the rest. */
	if (!r && name)
		r = from_helper(name, host, ret, err);
	json_object_put(config);
	return r;
}

void docker_auth_free(struct docker_auth *a)
{
	if (a->second)
		explicit_bzero(a->second, strlen(a->second));
	if (a->first)
		explicit_bzero(a->first, strlen(a->first));
	free(a->first);
	free(a->second);
	*a = (struct docker_auth){ 0 };
}
