/* SPDX-License-Identifier: Apache-2.0 */
/* What the host tells the zone about itself once it is up. One thing that fails is a warning, the others are still done; but a zone
 * whose boot or whose addons failed can be of no use, and Configure fails. */
#include "agent.h"

#include "base/cleanup.h"
#include "base/text.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ADDONS "/run/addons"

struct configuring {
	struct agent *a;
	Edera__Agent__V1__ConfigureRequest *q;
	struct caller from;
	size_t module; /* the next one to load */
	char **warnings;
	size_t n_warnings;
	struct edera_error fault; /* code 0: none. What makes the zone useless */
};

static void warn(struct configuring *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void warn(struct configuring *c, const char *fmt, ...)
{
	char **p = realloc(c->warnings, (c->n_warnings + 1) * sizeof *p);
	char text[512];
	va_list ap;

	if (!p)
		return;
	c->warnings = p;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	text_force_utf8(text);
	p[c->n_warnings] = strdup(text);
	c->n_warnings += p[c->n_warnings] != NULL;
}

static void finish(struct configuring *c)
{
	Edera__Agent__V1__ConfigureReply r = EDERA__AGENT__V1__CONFIGURE_REPLY__INIT;
	struct agent *a = c->a;
	struct utsname u;

	if (*a->fault && !c->fault.code)
		err_set(&c->fault, -EIO, "%s", a->fault);
	/* The kernel is quiet, and a log that stays empty tells nobody that all is well. */
	if (!c->fault.code && !a->configured && !uname(&u))
		dprintf(STDERR_FILENO, "protect: zone ready, kernel %s, agent %s\n", u.release, PACKAGE_VERSION);
	r.warnings = c->warnings;
	r.n_warnings = c->n_warnings;
	if (c->fault.code) {
		caller_fail(a, c->from, &c->fault);
	} else {
		a->configured = true;
		caller_reply(a, c->from, &r.base);
	}
	a->configuring = false;
	for (size_t i = 0; i < c->n_warnings; i++)
		free(c->warnings[i]);
	free(c->warnings);
	protobuf_c_message_free_unpacked(&c->q->base, NULL);
	free(c);
	service_go_on(a);
}

/* ---- modules, one modprobe after another ---- */

static void next_module(struct configuring *);

static void on_modprobe(void *user, int status)
{
	struct configuring *c = user;

	if (!WIFEXITED(status) || WEXITSTATUS(status))
		warn(c, "cannot load the kernel module '%s'", c->q->modules[c->module]);
	c->module++;
	next_module(c);
}

static void next_module(struct configuring *c)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	const char *argv[32] = { "modprobe", "--" };
	struct edera_error err = EDERA_ERROR_INIT;
	size_t n = 2;
	pid_t pid;

	while (c->a->init && c->module < c->q->n_modules) {
		struct child child = { .argv = argv, .envp = env, .fds = { -1, 2, 2 } };

		argv[n++] = c->q->modules[c->module];
		for (size_t i = 0; i < c->q->n_module_parameters && n < ARRAY_SIZE(argv) - 1; i++)
			if (!strcmp(c->q->module_parameters[i]->module, argv[2]))
				argv[n++] = c->q->module_parameters[i]->parameter;
		argv[n] = NULL;
		if (!child_start(&child, &pid, &err)) {
			reaper_watch(pid, on_modprobe, c);
			return;
		}
		warn(c, "%s", err.msg);
		c->module++;
		n = 2;
	}
	finish(c);
}

/* ---- addons: the kernel's modules and firmware ---- */

static void bind_read_only(struct configuring *c, const char *from, const char *to)
{
	struct edera_error err = EDERA_ERROR_INIT;

	if (path_mkdirs(to, 0755, &err))
		warn(c, "%s", err.msg);
	else if (mount(from, to, NULL, MS_BIND, NULL) < 0)
		warn(c, "cannot bind '%s' to '%s': %s", from, to, strerror(errno));
}

static void on_addons(void *user, int code)
{
	struct configuring *c = user;
	char from[PATH_CAP], to[PATH_CAP];
	struct utsname u;

	uname(&u);
	if (code) {
		err_set(&c->fault, code, "the disk '%s' with the kernel's modules did not appear", c->q->addons_serial);
	} else if (!disk_mount(c->a, c->q->addons_serial, ADDONS, true, &c->fault)) {
		/* modules/ is the tree itself, or holds one named after the kernel */
		if (!path_format(from, NULL, ADDONS "/modules/%s", u.release) && access(from, F_OK) < 0)
			strcpy(from, ADDONS "/modules");
		if (access(from, F_OK) == 0 && !path_format(to, NULL, "/lib/modules/%s", u.release))
			bind_read_only(c, from, to);
		if (access(ADDONS "/firmware", F_OK) == 0)
			bind_read_only(c, ADDONS "/firmware", "/lib/firmware");
	}
	if (c->fault.code)
		finish(c);
	else
		next_module(c);
}

/* ---- the rest ---- */

static void sysctl(struct configuring *c, const char *key, const char *value)
{
	char path[PATH_CAP];
	_close_ int fd = -1;
	size_t head = strlen("/proc/sys/");

	if (strstr(key, "..") || strchr(key, '/') || path_format(path, NULL, "/proc/sys/%s", key)) {
		warn(c, "'%s' is not a kernel setting", key);
		return;
	}
	for (char *p = path + head; *p; p++)
		if (*p == '.')
			*p = '/';
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		warn(c, "cannot set %s = %s: %s", key, value, strerror(errno));
}

static void set_time(struct configuring *c, uint64_t ns)
{
	struct timespec now, want = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
	int64_t off;

	clock_gettime(CLOCK_REALTIME, &now);
	off = (int64_t)want.tv_sec - (int64_t)now.tv_sec;
	if ((off > 1 || off < -1) && clock_settime(CLOCK_REALTIME, &want) < 0)
		warn(c, "cannot set the clock: %s", strerror(errno));
}

/* A word that makes no second one, nor a second line, of the file it goes into. */
static bool plain_word(const char *s)
{
	return *s && !s[strcspn(s, " \t\r\n#;")];
}

static void write_resolv_conf(struct configuring *c, const Protect__Control__V1__ZoneNetworkOptionsDnsSpec *dns)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_buf_ struct buf b = BUF_INIT;

	for (size_t i = 0; i < dns->n_nameservers; i++)
		if (plain_word(dns->nameservers[i]))
			buf_printf(&b, "nameserver %s\n", dns->nameservers[i]);
	for (size_t i = 0; i < dns->n_searches; i++)
		if (plain_word(dns->searches[i]))
			buf_printf(&b, "%s%s%s", i ? " " : "search ", dns->searches[i], i + 1 == dns->n_searches ? "\n" : "");
	for (size_t i = 0; i < dns->n_options; i++)
		if (plain_word(dns->options[i]))
			buf_printf(&b, "options %s\n", dns->options[i]);
	if (path_write_file("/etc/resolv.conf", b.data ? (void *)b.data : "", b.len, 0644, &err))
		warn(c, "%s", err.msg);
}

static void set_hostname(struct configuring *c, const char *name)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_buf_ struct buf b = BUF_INIT;

	if (!plain_word(name) || sethostname(name, strlen(name)) < 0) {
		warn(c, "cannot set the host name '%s'", name);
		return;
	}
	if (!c->a->init)
		return;
	buf_printf(&b, "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n", name);
	if (path_write_file("/etc/hosts", b.data, b.len, 0644, &err))
		warn(c, "%s", err.msg);
	buf_clear(&b);
	buf_printf(&b, "%s\n", name);
	if (path_write_file("/etc/hostname", b.data, b.len, 0644, &err))
		warn(c, "%s", err.msg);
}

void configure(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	struct configuring *c = calloc(1, sizeof *c);
	struct edera_error err = EDERA_ERROR_INIT;
	size_t n = protobuf_c_message_get_packed_size(m);
	_free_ uint8_t *bytes = malloc(n + 1);

	/* What is loaded takes a while, and the request is gone by then. */
	if (c && bytes) {
		protobuf_c_message_pack(m, bytes);
		c->q = edera__agent__v1__configure_request__unpack(NULL, n, bytes);
	}
	if (!c || !c->q) {
		free(c);
		err_set(&err, -ENOMEM, "out of memory");
		caller_fail(a, from, &err);
		return;
	}
	c->a = a;
	c->from = from;
	a->configuring = true;
	if (*c->q->hostname)
		set_hostname(c, c->q->hostname);
	if (a->init) {
		if (c->q->time_ns)
			set_time(c, c->q->time_ns);
		for (size_t i = 0; i < c->q->n_sysctls; i++)
			sysctl(c, c->q->sysctls[i]->key, c->q->sysctls[i]->value);
		if (c->q->dns)
			write_resolv_conf(c, c->q->dns);
	}
	if (!a->init || !*c->q->addons_serial || a->configured)
		next_module(c);
	else if (!disk_wait(a, c->q->addons_serial, on_addons, c))
		on_addons(c, -ENOMEM);
}
