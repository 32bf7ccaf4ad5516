/* SPDX-License-Identifier: Apache-2.0 */
#include "front_auth.h"
#include "auth.h"
#include "origin.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HELPER_SECONDS 30
#define HELPER_MAX (64u << 10)

static bool default_file(char dst[PATH_CAP])
{
	const char *docker = getenv("DOCKER_CONFIG"), *home = getenv("HOME"), *run = getenv("XDG_RUNTIME_DIR"), *named = getenv("REGISTRY_AUTH_FILE");

	if (named && !path_format(dst, NULL, "%s", named))
		return true;
	if (docker && !path_format(dst, NULL, "%s/config.json", docker) && access(dst, R_OK) == 0)
		return true;
	if (run && !path_format(dst, NULL, "%s/containers/auth.json", run) && access(dst, R_OK) == 0)
		return true;
	return home && !path_format(dst, NULL, "%s/.docker/config.json", home) && access(dst, R_OK) == 0;
}

/* Which helper answers for a registry: its own, or the one for all. */
static const char *helper_of(json_object *file, const char *host)
{
	json_object *helpers = json_member(file, "credHelpers", json_type_object);

	if (helpers) {
		json_object_object_foreach(helpers, key, value)
		{
			char of[300];

			auth_key_host(key, of, sizeof of);
			if (!strcmp(of, host) && json_object_is_type(value, json_type_string))
				return json_object_get_string(value);
		}
	}
	return json_text(file, "credsStore");
}

static bool find_program(const char *name, char dst[PATH_CAP])
{
	const char *path = getenv("PATH");

	for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
		size_t n = strcspn(p, ":");

		if (n && *p == '/' && !path_format(dst, NULL, "%.*s/%s", (int)n, p, name) && access(dst, X_OK) == 0)
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void drain(int fd, struct buf *out, int64_t deadline)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = (deadline - now_ns()) / 1000000;
		ssize_t n;

		if (left <= 0 || poll(&p, 1, (int)left) <= 0 || out->len > HELPER_MAX || buf_reserve(out, 4096))
			return;
		n = read(fd, out->data + out->len, 4096);
		if (n <= 0)
			return;
		out->len += (size_t)n;
	}
}

/* docker-credential-NAME get: the registry on its standard input, JSON on its standard output. */
static int ask_helper(const char *name, const char *server, struct buf *out, struct edera_error *err)
{
	char program[PATH_CAP], file[200];
	const char *argv[] = { program, "get", NULL };
	int in[2], back[2], pidfd, status, r;
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1, .deadline_ns = now_ns() + HELPER_SECONDS * 1000000000ll };
	pid_t pid;

	if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != strlen(name) || strlen(name) > 100)
		return err_set(err, -EINVAL, "'%.100s' is no name of a credential helper", name);
	snprintf(file, sizeof file, "docker-credential-%s", name);
	if (!find_program(file, program))
		return err_set(err, -ENOENT, "the credential helper '%s' is configured, but is not there", file);
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(back, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot ask the credential helper '%s'", file);
	struct edera_spawn s = { .size = sizeof s, .argv = argv, .envp = (const char *const *)environ, .fds = (int[]){ in[0], back[1], -1 }, .n_fds = 3 };

	r = spawn(&s, &pidfd, &pid, err);
	close(in[0]);
	close(back[1]);
	if (!r) {
		(void)!write(in[1], server, strlen(server));
		close(in[1]);
		drain(back[0], out, call.deadline_ns);
		close(back[0]);
		r = spawn_wait(pidfd, pid, &call, &status, err);
	} else {
		close(in[1]);
		close(back[0]);
	}
	if (r)
		return err_wrap(err, "the credential helper '%s'", file);
	if (out->len > HELPER_MAX)
		return err_set(err, -E2BIG, "the credential helper '%s' says more than %u bytes", file, HELPER_MAX);
	if (status != 0) /* it knows nothing of this registry: anonymous then */
		buf_clear(out);
	return r;
}

/* What the helper said, as an entry of "auths". */
static int helper_entry(const char *helper, const char *server, json_object **ret, struct edera_error *err)
{
	_buf_ struct buf out = BUF_INIT;
	_json_ json_object *o = NULL;
	const char *user, *secret;
	int r = ask_helper(helper, server, &out, err);

	if (r || out.len == 0)
		return r;
	r = json_read(out.data, out.len, &o, err);
	if (r)
		return err_wrap(err, "the answer of the credential helper 'docker-credential-%s'", helper);
	user = json_text(o, "Username");
	secret = json_text(o, "Secret");
	if (!user || !secret)
		return 0;
	*ret = json_object_new_object();
	if (!strcmp(user, "<token>")) {
		json_object_object_add(*ret, "identitytoken", json_object_new_string(secret));
	} else {
		json_object_object_add(*ret, "username", json_object_new_string(user));
		json_object_object_add(*ret, "password", json_object_new_string(secret));
	}
	return 0;
}

static int add_host(const struct options *o, json_object *file, json_object *auths, const char *host, const char *path, struct edera_error *err)
{
	const char *helper = helper_of(file, host);
	struct credentials c = { 0 };
	json_object *entry = NULL;
	int r;

	if (helper) {
		r = helper_entry(helper, !strcmp(host, "docker.io") ? "https://index.docker.io/v1/" : host, &entry, err);
		if (r)
			return r;
	}
	if (!entry) {
		r = auth_lookup(file, host, path, &c, err);
		if (r)
			return r;
		entry = json_object_new_object();
		if (c.user && c.password) {
			json_object_object_add(entry, "username", json_object_new_string(c.user));
			json_object_object_add(entry, "password", json_object_new_string(c.password));
		}
		if (c.identity_token)
			json_object_object_add(entry, "identitytoken", json_object_new_string(c.identity_token));
		if (c.registry_token)
			json_object_object_add(entry, "registrytoken", json_object_new_string(c.registry_token));
		credentials_free(&c);
	}
	json_object_object_add(auths, host, entry);
	return 0;
}

int front_credentials(const struct options *o, struct buf *ret, struct edera_error *err)
{
	_json_ json_object *file = NULL, *out = NULL;
	_buf_ struct buf text = BUF_INIT;
	json_object *auths;
	struct origin ref;
	char path[PATH_CAP];
	int r = o->verb == VERB_TAGS ? origin_parse_repository(o->reference, &ref, err) : origin_parse(o->reference, &ref, err);

	if (r || ref.kind != ORIGIN_REGISTRY)
		return r;
	if (o->auth_file)
		r = path_format(path, err, "%s", o->auth_file);
	else if (!default_file(path))
		return 0;
	if (!r)
		r = path_read_file(path, AUTH_FILE_MAX, &text, err);
	if (!r)
		r = json_read(text.data, text.len, &file, err);
	if (r)
		return err_wrap(err, "the credentials in '%.200s'", path);
	out = json_object_new_object();
	auths = json_object_new_object();
	json_object_object_add(out, "auths", auths);
	r = add_host(o, file, auths, ref.image.registry, ref.image.repository, err);
	if (!r && o->mirror && !strcmp(ref.image.registry, "docker.io"))
		r = add_host(o, file, auths, o->mirror, ref.image.repository, err);
	if (!r)
		buf_puts(ret, json_object_to_json_string_ext(out, JSON_C_TO_STRING_PLAIN));
	return r;
}
