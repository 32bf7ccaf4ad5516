/* SPDX-License-Identifier: Apache-2.0 */
#include "base/oci_auth.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/spawn.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MAX_FILE (1u << 20)
#define MAX_ANSWER (64u << 10) /* of a credential helper */
#define HELPER_SECONDS 20

static void json_put(struct json_object **o) { json_object_put(*o); }
#define _json_ _cleanup_(json_put)

static int parse(const char *text, size_t len, const char *what, struct json_object **ret, struct edera_error *err)
{
	struct json_tokener *t = json_tokener_new_ex(16);
	struct json_object *o = t ? json_tokener_parse_ex(t, text, (int)len) : NULL;
	const char *why = t ? json_tokener_error_desc(json_tokener_get_error(t)) : "out of memory";
	int r = 0;

	if (!json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		r = err_set(err, -EINVAL, "%s is not in the form of Docker's config.json: %s", what, o ? "expected an object" : why);
	} else {
		*ret = o;
	}
	if (t)
		json_tokener_free(t);
	return r;
}

/* "https://index.docker.io/v1/" and "docker.io" are one registry. Host part of a key into dst. */
static void host_of(const char *key, char dst[256])
{
	const char *p = strstr(key, "://");

	p = p ? p + 3 : key;
	snprintf(dst, 256, "%.*s", (int)strcspn(p, "/"), p);
	if (!strcmp(dst, "index.docker.io") || !strcmp(dst, "registry-1.docker.io"))
		strcpy(dst, "docker.io");
}

static bool concerns(const struct oci_auth_request *q, const char *key)
{
	char host[256], want[256];

	host_of(key, host);
	host_of(q->registry, want);
	if (!strcmp(host, want))
		return true;
	if (strcmp(want, "docker.io") || !q->mirror || !*q->mirror)
		return false;
	host_of(q->mirror, want);
	return !strcmp(host, want);
}

static int add_auths(const struct oci_auth_request *q, struct json_object *from, struct json_object *to)
{
	struct json_object *auths = json_object_object_get(from, "auths");

	if (!json_object_is_type(auths, json_type_object))
		return 0;
	json_object_object_foreach(auths, key, entry) {
		if (!json_object_is_type(entry, json_type_object) || !json_object_object_length(entry) || !concerns(q, key))
			continue;
		if (json_object_object_add(to, key, json_object_get(entry)))
			return -ENOMEM;
	}
	return 0;
}

static void base64(const unsigned char *in, size_t n, struct buf *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)in[i] << 16 | (i + 1 < n ? (uint32_t)in[i + 1] << 8 : 0) | (i + 2 < n ? in[i + 2] : 0);
		char four[4] = { digits[v >> 18], digits[v >> 12 & 63], i + 1 < n ? digits[v >> 6 & 63] : '=', i + 2 < n ? digits[v & 63] : '=' };

		buf_append(out, four, 4);
	}
}

/* What a helper answered, as an entry of "auths". */
static struct json_object *entry_of(const char *user, const char *secret)
{
	_buf_ struct buf plain = BUF_INIT, coded = BUF_INIT;
	struct json_object *entry = json_object_new_object();

	if (!strcmp(user, "<token>")) {
		json_object_object_add(entry, "identitytoken", json_object_new_string(secret));
	} else {
		buf_printf(&plain, "%s:%s", user, secret);
		base64(plain.data, plain.len, &coded);
		json_object_object_add(entry, "auth", json_object_new_string(coded.failed ? "" : (char *)coded.data));
	}
	if (plain.data)
		explicit_bzero(plain.data, plain.len);
	return entry;
}

static int find_helper(const struct oci_auth_request *q, const char *name, char path[PATH_CAP], struct edera_error *err)
{
	char standard[PATH_CAP];
	const char *dirs = q->helper_path;
	int r = 0;

	if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(name))
		return err_set(err, -EINVAL, "the credential helper's name '%.60s' is not allowed", name);
	if (!dirs) {
		r = path_format(standard, err, "%s:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", q->helper_dir ? q->helper_dir : "");
		dirs = standard;
	}
	while (!r && *dirs) {
		size_t n = strcspn(dirs, ":");

		if (*dirs == '/')
			r = path_format(path, err, "%.*s/docker-credential-%s", (int)n, dirs, name);
		if (!r && *dirs == '/' && access(path, X_OK) == 0)
			return 0;
		dirs += n + (dirs[n] == ':');
	}
	return r ? r : err_set(err, -ENOENT, "the credential helper docker-credential-%.60s is not installed", name);
}

/* Memory files rather than pipes: neither side can fill up and wait for the other. */
static int memory_file(const char *text, struct edera_error *err)
{
	int fd = memfd_create("credentials", MFD_CLOEXEC);
	size_t n = strlen(text);

	if (fd < 0 || write(fd, text, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) < 0) {
		int r = err_errno(err, -errno, "cannot ask a credential helper");

		if (fd >= 0)
			close(fd);
		return r;
	}
	return fd;
}

static int ask_helper(const struct oci_auth_request *q, const char *name, const char *server, struct buf *answer, struct edera_error *err)
{
	char path[PATH_CAP];
	const char *argv[] = { path, "get", NULL };
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1 };
	_close_ int in = -1, out = -1;
	struct timespec now;
	int pidfd, status, r = find_helper(q, name, path, err);
	pid_t pid;
	ssize_t n;

	if (r)
		return r;
	in = memory_file(server, err);
	out = in < 0 ? in : memory_file("", err);
	if (out < 0)
		return out;
	r = spawn(&(struct edera_spawn){ .size = sizeof(struct edera_spawn), .argv = argv, .envp = q->helper_env, .fds = (int[]){ in, out, -1 }, .n_fds = 3 }, &pidfd, &pid, err);
	if (r)
		return r;
	clock_gettime(CLOCK_MONOTONIC, &now);
	call.deadline_ns = (now.tv_sec + HELPER_SECONDS) * INT64_C(1000000000);
	r = spawn_wait(pidfd, pid, &call, &status, err);
	if (r)
		return err_wrap(err, "the credential helper '%s' did not answer", path);
	if (buf_reserve(answer, MAX_ANSWER))
		return err_errno(err, -ENOMEM, "cannot ask a credential helper");
	n = pread(out, answer->data, MAX_ANSWER, 0);
	answer->len = n > 0 ? (size_t)n : 0;
	answer->data[answer->len] = 0;
	/* "credentials not found" is how helpers say that there are none. */
	if (status && strstr((char *)answer->data, "not found"))
		return -ENOENT;
	return status ? err_set(err, -EIO, "the credential helper '%s' failed for %s: %.100s", path, server, (char *)answer->data) : 0;
}

static int add_from_helper(const struct oci_auth_request *q, const char *name, const char *server, struct json_object *to, struct edera_error *err)
{
	_json_ struct json_object *o = NULL;
	_buf_ struct buf answer = BUF_INIT;
	const char *user, *secret;
	int r = ask_helper(q, name, server, &answer, err);

	if (!r)
		r = parse((char *)answer.data, answer.len, "what the credential helper answered", &o, err);
	if (answer.data)
		explicit_bzero(answer.data, answer.len);
	if (r)
		return r;
	user = json_object_get_string(json_object_object_get(o, "Username"));
	secret = json_object_get_string(json_object_object_get(o, "Secret"));
	if (!user || !secret)
		return err_set(err, -EINVAL, "the credential helper docker-credential-%s answered without Username and Secret", name);
	json_object_object_add(to, server, entry_of(user, secret));
	return 0;
}

/* A helper for this very registry wins over the store for all; both over what the file holds itself. */
static int add_helpers(const struct oci_auth_request *q, struct json_object *from, struct json_object *to, struct edera_error *err)
{
	struct json_object *helpers = json_object_object_get(from, "credHelpers"), *store = json_object_object_get(from, "credsStore");
	const char *server = strcmp(q->registry, "docker.io") ? q->registry : "https://index.docker.io/v1/";
	int r;

	if (json_object_is_type(helpers, json_type_object)) {
		json_object_object_foreach(helpers, key, name) {
			if (!concerns(q, key) || !json_object_is_type(name, json_type_string))
				continue;
			r = add_from_helper(q, json_object_get_string(name), strcmp(q->registry, "docker.io") ? key : server, to, err);
			return r == -ENOENT && err && !err->msg[0] ? 0 : r;
		}
	}
	if (!json_object_is_type(store, json_type_string) || !json_object_get_string_len(store))
		return 0;
	r = add_from_helper(q, json_object_get_string(store), server, to, err);
	return r == -ENOENT && err && !err->msg[0] ? 0 : r;
}

static int add_file(const struct oci_auth_request *q, struct json_object *to, struct edera_error *err)
{
	_json_ struct json_object *o = NULL;
	struct edera_error why = EDERA_ERROR_INIT;
	_buf_ struct buf text = BUF_INIT;
	char what[300];
	int r = q->file ? path_read_file(q->file, MAX_FILE, &text, &why) : -ENOENT;

	if (r == -ENOENT)
		return 0;
	if (r)
		return err_set(err, r, "cannot read credentials: %s", why.msg);
	snprintf(what, sizeof what, "'%.280s'", q->file);
	r = parse((char *)text.data, text.len, what, &o, err);
	explicit_bzero(text.data, text.len);
	if (!r)
		r = add_auths(q, o, to);
	if (!r && q->helpers)
		r = add_helpers(q, o, to, err);
	return r;
}

int oci_auth_collect(const struct oci_auth_request *q, struct buf *ret, struct edera_error *err)
{
	_json_ struct json_object *all = json_object_new_object(), *call = NULL;
	struct json_object *auths = json_object_new_object();
	int r = all && auths && !json_object_object_add(all, "auths", auths) ? 0 : err_errno(err, -ENOMEM, "cannot collect credentials");

	if (!r)
		r = add_file(q, auths, err);
	if (!r && q->call_json && *q->call_json) {
		r = strlen(q->call_json) > MAX_FILE ? err_set(err, -EFBIG, "the credentials given are larger than %u bytes", MAX_FILE)
						    : parse(q->call_json, strlen(q->call_json), "what was given as credentials", &call, err);
		if (!r)
			r = add_auths(q, call, auths);
	}
	if (!r && json_object_object_length(auths)) {
		buf_puts(ret, json_object_to_json_string_ext(all, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
		if (ret->failed)
			r = err_errno(err, -ENOMEM, "cannot collect credentials");
	}
	return r;
}
