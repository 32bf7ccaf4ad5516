/* SPDX-License-Identifier: Apache-2.0 */
#include "oci.h"
#include "oci_certs.h"
#include "oci_content.h"
#include "base/oci_auth.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/reference.h"
#include "base/spawn.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define MAX_LINE (16u << 20)   /* a result carries manifest and config in base64 */
#define MAX_OUTPUT (256u << 20)
#define MAX_COMPLAINT 4096     /* of stderr, its end */
#define MAX_ARGS 128

/* One run: the program's command line, its descriptors, and what it says. */
struct run {
	const struct edera_oci_run *asked;
	const struct edera_call *call;
	const char *argv[MAX_ARGS];
	size_t argc;
	char *owned[MAX_ARGS]; /* texts made for argv */
	size_t n_owned;
	int fds[12];
	size_t n_fds;
	int auth_fd, out, complaints; /* ours; the last two are read */
	struct oci_certs certs;
	char registry[256];           /* of the image; "" for one on this machine */
	struct oci_content content;
	int content_fd;               /* the provider's end */
	struct buf line, complaint;
	size_t total;
	char message[504]; /* of its error line */
	int code;
};

static const struct { const char *name; int value; } errno_names[] = {
	{ "EACCES", EACCES }, { "EPERM", EPERM }, { "ENOENT", ENOENT }, { "EEXIST", EEXIST }, { "EINVAL", EINVAL }, { "EIO", EIO },
	{ "ENOSPC", ENOSPC }, { "EDQUOT", EDQUOT }, { "ENOMEM", ENOMEM }, { "E2BIG", E2BIG }, { "EFBIG", EFBIG }, { "EBADMSG", EBADMSG },
	{ "EPROTO", EPROTO }, { "ETIMEDOUT", ETIMEDOUT }, { "ECONNREFUSED", ECONNREFUSED }, { "ECONNRESET", ECONNRESET },
	{ "EHOSTUNREACH", EHOSTUNREACH }, { "ENETUNREACH", ENETUNREACH }, { "ECANCELED", ECANCELED }, { "ENOTSUP", ENOTSUP },
	{ "EOPNOTSUPP", EOPNOTSUPP }, { "ENOEXEC", ENOEXEC }, { "EBUSY", EBUSY }, { "EAGAIN", EAGAIN }, { "EREMOTEIO", EREMOTEIO },
	{ "EILSEQ", EILSEQ }, { "ENODATA", ENODATA }, { "EKEYREJECTED", EKEYREJECTED }, { "EOVERFLOW", EOVERFLOW }, { "ELOOP", ELOOP },
};

static int errno_of(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(errno_names); i++)
		if (!strcmp(errno_names[i].name, name))
			return -errno_names[i].value;
	return -EIO;
}

static void arg(struct run *r, const char *s)
{
	if (r->argc < MAX_ARGS - 1)
		r->argv[r->argc] = s;
	r->argc++;
}

static void number_arg(struct run *r, const char *option, int64_t n)
{
	char *text = r->n_owned < MAX_ARGS && asprintf(&text, "%" PRId64, n) >= 0 ? text : NULL;

	if (!text) {
		r->argc = MAX_ARGS;
		return;
	}
	r->owned[r->n_owned++] = text;
	arg(r, option);
	arg(r, text);
}

static void fd_arg(struct run *r, const char *option, int fd)
{
	if (fd < 0)
		return;
	number_arg(r, option, (int64_t)r->n_fds);
	r->fds[r->n_fds++] = fd;
}

static const char *program(void)
{
	const char *p = getenv("PROTECT_OCI_PROVIDER"); /* for tests that run from a build tree */

	return p && *p == '/' ? p : PROTECT_BIN_DIR "/protect-oci-provider";
}

static void build_args(struct run *r, const struct conf *c)
{
	const char *const *insecure;
	size_t n = conf_list(c, "oci.insecure-registries", &insecure);

	arg(r, program());
	arg(r, "--progress");
	arg(r, "json");
	arg(r, "--docker-hub-mirror");
	arg(r, conf_str(c, "oci.docker-hub-mirror"));
	for (size_t i = 0; i < n; i++) {
		arg(r, "--insecure-registry");
		arg(r, insecure[i]);
	}
	if (*conf_str(c, "oci.ca-file")) {
		arg(r, "--ca");
		arg(r, conf_str(c, "oci.ca-file"));
	}
	number_arg(r, "--max-size", conf_int(c, "oci.max-image-mb") << 20);
	number_arg(r, "--max-entries", conf_int(c, "oci.max-image-entries"));
	number_arg(r, "--timeout", conf_int(c, "oci.pull-timeout-seconds"));
	fd_arg(r, "--auth-fd", r->auth_fd);
	fd_arg(r, "--ca-fd", r->certs.ca_fd);
	fd_arg(r, "--cert-fd", r->certs.cert_fd);
	fd_arg(r, "--key-fd", r->certs.key_fd);
	fd_arg(r, "--output-fd", r->asked->output_fd);
	fd_arg(r, "--spool-fd", r->asked->spool_fd);
	if (r->asked->flags & EDERA_OCI_ARCHIVE)
		fd_arg(r, "--archive-fd", r->asked->archive_fd);
	fd_arg(r, "--content-fd", r->content_fd);
	for (size_t i = 0; r->asked->args[i]; i++)
		arg(r, r->asked->args[i]);
}

/* The registry of the operand, which is the last argument; "" for one that is none but on this machine. */
static int registry_of(const struct edera_oci_run *asked, char dst[256], struct edera_error *err)
{
	static const char *const local[] = { "oci:", "oci-archive:", "docker-archive:", "archive:" };
	struct reference ref;
	size_t n = 0;
	int r;

	while (asked->args && asked->args[n])
		n++;
	if (!n)
		return err_set(err, -EINVAL, "protect-oci-provider is asked for nothing");
	dst[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(local); i++)
		if (text_starts(asked->args[n - 1], local[i]))
			return 0;
	r = reference_parse(asked->args[n - 1], &ref, err);
	if (!r)
		strcpy(dst, ref.registry);
	return r;
}

static int open_auth(struct run *r, const struct conf *c, const char *data_dir, struct edera_error *err)
{
	struct oci_auth_request q = { .mirror = conf_str(c, "oci.docker-hub-mirror"), .call_json = r->asked->auth_json, .helpers = true };
	_buf_ struct buf json = BUF_INIT;
	char file[PATH_CAP];
	int e = registry_of(r->asked, r->registry, err);

	if (e || !*r->registry)
		return e;
	q.registry = r->registry;
	q.file = conf_str(c, "oci.auth-file");
	if (!*q.file) {
		e = path_format(file, err, "%s/auth.json", data_dir);
		q.file = file;
	}
	if (!e)
		e = oci_auth_collect(&q, &json, err);
	if (e || !json.len)
		return e;
	e = oci_sealed_file("credentials", &json, &r->auth_fd, err);
	explicit_bzero(json.data, json.len);
	return e;
}

/* The line that ends a failed run; small, so a progress line costs little. */
static void note_error(struct run *r, const char *line, size_t len)
{
	struct json_tokener *t;
	struct json_object *o;
	const char *type, *message;

	if (len > 65536 || !strstr(line, "\"error\""))
		return;
	t = json_tokener_new_ex(8);
	o = t ? json_tokener_parse_ex(t, line, (int)len) : NULL;
	type = json_object_get_string(json_object_object_get(o, "type"));
	message = json_object_get_string(json_object_object_get(o, "message"));
	if (type && !strcmp(type, "error") && message) {
		snprintf(r->message, sizeof r->message, "%s", message);
		r->code = errno_of(json_object_get_string(json_object_object_get(o, "errno")));
	}
	json_object_put(o);
	if (t)
		json_tokener_free(t);
}

static void take_line(struct run *r, char *line, size_t len)
{
	if (!len || !text_valid_utf8(line, len))
		return;
	note_error(r, line, len);
	if (r->asked->line)
		r->asked->line(r->asked->user, line, len);
}

/* 1: more may come; 0: its end. */
static int read_lines(struct run *r, struct edera_error *err)
{
	size_t done = 0, from = r->line.len;
	ssize_t n;

	if (buf_reserve(&r->line, 65536))
		return err_errno(err, -ENOMEM, "cannot read what protect-oci-provider says");
	n = read(r->out, r->line.data + r->line.len, 65536);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 1 : err_errno(err, -errno, "cannot read what protect-oci-provider says");
	r->line.len += (size_t)n;
	r->total += (size_t)n;
	r->line.data[r->line.len] = 0;
	for (size_t i = from; i < r->line.len; i++)
		if (r->line.data[i] == '\n') {
			r->line.data[i] = 0;
			take_line(r, (char *)r->line.data + done, i - done);
			done = i + 1;
		}
	buf_consume(&r->line, done);
	if (n == 0 && r->line.len)
		take_line(r, (char *)r->line.data, r->line.len);
	if (r->line.len > MAX_LINE || r->total > MAX_OUTPUT)
		return err_set(err, -EBADMSG, "protect-oci-provider said more than the %u MiB allowed", (r->line.len > MAX_LINE ? MAX_LINE : MAX_OUTPUT) >> 20);
	return n > 0;
}

static int read_complaint(struct run *r)
{
	char chunk[1024];
	ssize_t n = read(r->complaints, chunk, sizeof chunk);

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	buf_append(&r->complaint, chunk, (size_t)n);
	if (r->complaint.len > MAX_COMPLAINT)
		buf_consume(&r->complaint, r->complaint.len - MAX_COMPLAINT);
	return n > 0;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int listen_to(struct run *r, const struct edera_call *call, struct edera_error *err)
{
	struct pollfd p[4] = { { .fd = r->out, .events = POLLIN }, { .fd = r->complaints, .events = POLLIN }, { .fd = call->cancel_fd, .events = POLLIN },
			       { .fd = r->content.server.fd, .events = POLLIN } };

	while (p[0].fd >= 0 || p[1].fd >= 0) {
		int64_t left = (call->deadline_ns - now_ns()) / 1000000 + 1;
		int e;

		if (left <= 0)
			return err_set(err, -ETIMEDOUT, "it took longer than allowed");
		if (poll(p, 4, left > 60000 ? 60000 : (int)left) < 0 && errno != EINTR)
			return err_errno(err, -errno, "cannot wait for protect-oci-provider");
		if (p[2].revents)
			return err_set(err, -ECANCELED, "it was canceled");
		if (p[0].revents) {
			e = read_lines(r, err);
			if (e < 0)
				return e;
			p[0].fd = e ? p[0].fd : -1;
		}
		if (p[1].revents && !read_complaint(r))
			p[1].fd = -1;
		if (p[3].revents && !oci_content_serve(&r->content)) {
			oci_content_close(&r->content);
			p[3].fd = -1;
		}
	}
	return 0;
}

/* The last line it wrote to stderr, without the program's name. */
static const char *last_complaint(struct run *r)
{
	char *text = (char *)r->complaint.data, *nl;

	while (r->complaint.len && strchr("\n\r ", text[r->complaint.len - 1]))
		text[--r->complaint.len] = 0;
	if (!r->complaint.len)
		return NULL;
	nl = strrchr(text, '\n');
	text = nl ? nl + 1 : text;
	text_force_utf8(text);
	return text_starts(text, "protect-oci-provider: ") ? text + 22 : text;
}

static int fail_of(struct run *r, int status, struct edera_error *err)
{
	const char *said = r->message[0] ? r->message : last_complaint(r);

	if (said)
		return err_set(err, r->message[0] ? r->code : -EIO, "%s", said);
	if (status > 128)
		return err_set(err, -EIO, "protect-oci-provider was ended by signal %d", status - 128);
	return err_set(err, -EIO, "protect-oci-provider ended with status %d and said nothing", status);
}

static int execute(struct run *r, const struct edera_call *call, struct edera_error *err)
{
	_close_ int out_w = -1, complaints_w = -1;
	struct edera_spawn s = { .size = sizeof s, .argv = r->argv, .fds = r->fds, .n_fds = r->n_fds };
	int pidfd, status, e, out[2], complaints[2];
	struct edera_call at_once = { .size = sizeof at_once, .cancel_fd = -1, .deadline_ns = 1 };
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot start protect-oci-provider");
	r->out = out[0];
	out_w = out[1];
	if (pipe2(complaints, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot start protect-oci-provider");
	r->complaints = complaints[0];
	complaints_w = complaints[1];
	r->fds[1] = out_w;
	r->fds[2] = complaints_w;
	if (geteuid() == 0) {
		e = spawn_user(PROTECT_OCI_USER, &s.uid, &s.gid, err);
		if (e)
			return e;
		s.drop_user = 1;
	}
	e = spawn(&s, &pidfd, &pid, err);
	if (e)
		return e;
	close(steal_fd(&out_w));
	close(steal_fd(&complaints_w));
	close_fd(&r->content_fd);
	r->content_fd = -1;
	e = listen_to(r, call, err);
	if (e) {
		kill(-pid, SIGKILL); /* its children too; not yet reaped, so the number is still its own */
		spawn_wait(pidfd, pid, &at_once, &status, NULL);
		return e;
	}
	e = spawn_wait(pidfd, pid, call, &status, err);
	return e ? e : status ? fail_of(r, status, err) : 0;
}

int oci_run(const struct conf *c, const char *data_dir, const struct edera_call *call, const struct edera_oci_run *asked, struct edera_error *err)
{
	struct run r = { .asked = asked, .fds = { -1, -1, -1 }, .n_fds = 3, .auth_fd = -1, .out = -1, .complaints = -1, .certs = { -1, -1, -1 },
			 .content = { .server = { .fd = -1 } }, .content_fd = -1 };
	struct edera_call bound = { .size = sizeof bound, .cancel_fd = call ? call->cancel_fd : -1, .deadline_ns = call ? call->deadline_ns : 0 };
	int e = open_auth(&r, c, data_dir, err);

	if (!e && *r.registry)
		e = oci_certs_open(conf_str(c, "oci.certs-dir"), r.registry, &r.certs, err);
	if (!bound.deadline_ns)
		bound.deadline_ns = now_ns() + conf_int(c, "oci.pull-timeout-seconds") * INT64_C(1000000000);
	if (!e && *r.registry && asked->output_fd >= 0)
		e = oci_content_open(&r.content, c, asked, &r.content_fd, err);
	if (!e) {
		build_args(&r, c);
		e = r.argc < MAX_ARGS ? execute(&r, &bound, err) : err_set(err, -E2BIG, "protect-oci-provider would get too many arguments");
	}
	close_fd(&r.auth_fd);
	oci_certs_close(&r.certs);
	close_fd(&r.out);
	close_fd(&r.complaints);
	close_fd(&r.content_fd);
	oci_content_close(&r.content);
	buf_free(&r.line);
	buf_free(&r.complaint);
	for (size_t i = 0; i < r.n_owned; i++)
		free(r.owned[i]);
	return e;
}
