/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/check.h"
#include "plugin/inspect.h"
#include "base/cleanup.h"
#include "base/spawn.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>

#define CHILD_FD 3
#define MAX_REPORT 65536
#define CHECK_SECONDS 10
#define END_OF_REPORT "end" /* a constructor may end the process, and that looks like success */

static void print_field(const char *key, const char *value)
{
	printf("%s\t", key);
	for (; *value; value++)
		putchar((unsigned char)*value < 0x20 ? ' ' : *value);
	putchar('\n');
}

static const char *conf_type_name(uint32_t type)
{
	static const char *const names[] = { [EDERA_CONF_STRING] = "string", [EDERA_CONF_INT] = "int", [EDERA_CONF_BOOL] = "bool", [EDERA_CONF_LIST] = "list" };

	return type < ARRAY_SIZE(names) && names[type] ? names[type] : "unknown";
}

static void print_report(const struct edera_plugin *p)
{
	char text[1024];

	print_field("name", p->name);
	print_field("version", p->version);
	print_field("summary", p->summary);
	print_field("license", p->license);
	snprintf(text, sizeof text, "%u.%u", p->abi_major, p->abi_minor);
	print_field("abi", text);
	for (const struct edera_provide *v = p->provides; v && v->kind; v++) {
		snprintf(text, sizeof text, "%s %s", plugin_kind_name(v->kind), v->name);
		print_field("provides", text);
	}
	for (const struct edera_require *n = p->needs; n && n->kind; n++) {
		snprintf(text, sizeof text, "%s %s%s", plugin_kind_name(n->kind), n->name ? n->name : "(any)", n->soft ? " (may be absent)" : "");
		print_field("needs", text);
	}
	for (const struct edera_conf_key *k = p->conf; k && k->name; k++) {
		snprintf(text, sizeof text, "%s %s: %s", k->name, conf_type_name(k->type), k->doc ? k->doc : "");
		print_field("conf", text);
	}
}

/* The plugin's constructors run in here: no privileges to gain, little to write, no time to lose. */
static void confine(void)
{
	static const struct { int what; rlim_t value; } limits[] = {
		{ RLIMIT_CPU, CHECK_SECONDS }, { RLIMIT_FSIZE, MAX_REPORT }, { RLIMIT_CORE, 0 }, { RLIMIT_NPROC, 64 }, { RLIMIT_NOFILE, 128 },
#ifndef PROTECT_SANITIZED
		{ RLIMIT_AS, (rlim_t)2 << 30 },
#endif
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		setrlimit(limits[i].what, &(struct rlimit){ limits[i].value, limits[i].value });
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int plugin_check_child(const char *path)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct edera_plugin p;
	int r;

	confine();
	r = plugin_check_elf(CHILD_FD, path, &err);
	if (!r)
		r = plugin_open("/proc/self/fd/3", path, &p, &err);
	if (!r)
		r = plugin_check_descriptor(&p, &err);
	if (r) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	print_report(&p);
	print_field(END_OF_REPORT, "");
	return fflush(stdout) ? 1 : 0;
}

/* Reads until both ends are closed; the child's limits and the deadline bound it. */
static void read_all(int fd, struct buf *b)
{
	char chunk[4096];
	ssize_t n;

	while ((n = pread(fd, chunk, sizeof chunk, (off_t)b->len)) > 0 && b->len < MAX_REPORT)
		buf_append(b, chunk, (size_t)n);
}

static void trim(struct buf *b)
{
	while (b->len && b->data[b->len - 1] == '\n')
		b->data[--b->len] = 0;
}

/* Files without a name rather than pipes: a child that leaves others behind keeps nobody waiting. */
static int scratch(struct edera_error *err)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? err_errno(err, -errno, "cannot check a plugin") : fd;
}

/* A copy in memory: the unprivileged child can open it whatever the file's mode, and it is what the child will see, to the byte. */
static int copy_to_memory(int fd, off_t size, const char *path, struct edera_error *err)
{
	_close_ int copy = memfd_create("plugin", MFD_CLOEXEC);

	while (copy >= 0 && size > 0) {
		ssize_t n = sendfile(copy, fd, NULL, (size_t)size);

		if (n <= 0)
			return err_errno(err, n < 0 ? -errno : -EIO, "cannot read '%s'", path);
		size -= n;
	}
	return copy < 0 ? err_errno(err, -errno, "cannot read '%s'", path) : steal_fd(&copy);
}

static int run_child(const char *self, const char *path, int plugin_fd, struct buf *report, struct edera_error *err)
{
	const char *argv[] = { self, "plugin", "check", "--child", path, NULL };
	struct edera_spawn s = { .size = sizeof s, .argv = argv, .n_fds = 4 };
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1 };
	_close_ int out = -1, complaints = -1;
	_buf_ struct buf said = BUF_INIT;
	int pidfd, status, r;
	struct timespec now;
	pid_t pid;

	out = scratch(err);
	complaints = out < 0 ? out : scratch(err);
	if (complaints < 0)
		return complaints;
	s.fds = (int[]){ -1, out, complaints, plugin_fd };
	if (geteuid() == 0) {
		r = spawn_user("nobody", &s.uid, &s.gid, err);
		if (r)
			return r;
		s.drop_user = 1;
	}
	r = spawn(&s, &pidfd, &pid, err);
	if (r)
		return r;
	clock_gettime(CLOCK_MONOTONIC, &now);
	call.deadline_ns = (now.tv_sec + CHECK_SECONDS) * INT64_C(1000000000);
	r = spawn_wait(pidfd, pid, &call, &status, err);
	if (r)
		return r == -ETIMEDOUT ? err_set(err, r, "'%s' did not finish loading within %d s: what do its constructors do?", path, CHECK_SECONDS) : r;
	read_all(out, report);
	read_all(complaints, &said);
	trim(&said);
	if (status > 128)
		return err_set(err, -EFAULT, "loading '%s' ended the process with signal %d (%s)", path, status - 128, strsignal(status - 128));
	if (status)
		return err_set(err, -ENOEXEC, "%s", said.len ? (char *)said.data : "the check failed without a reason");
	trim(report);
	if (!report->data || !text_ends((char *)report->data, "\n" END_OF_REPORT "\t"))
		return err_set(err, -ENOEXEC, "loading '%s' ended the process before it could be looked at", path);
	report->len -= strlen(END_OF_REPORT "\t");
	report->data[report->len] = 0;
	return 0;
}

/* The file may be sound and yet lie where the daemon would not trust it. */
static void note_trust(const char *path, struct buf *report)
{
	struct edera_error err = EDERA_ERROR_INIT;

	if (plugin_check_file(path, &err))
		buf_printf(report, "note\tthe daemon would not load it from here: %s\n", err.msg);
}

int plugin_check(const char *self, const char *path, struct buf *report, struct edera_error *err)
{
	_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_close_ int copy = -1;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, -errno, "cannot open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EPERM, "'%s' is not a regular file", path);
	r = plugin_check_elf(fd, path, err);
	if (r)
		return r;
	copy = copy_to_memory(fd, st.st_size, path, err);
	r = copy < 0 ? copy : run_child(self, path, copy, report, err);
	if (!r)
		note_trust(path, report);
	return r;
}
