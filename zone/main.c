/* SPDX-License-Identifier: Apache-2.0 */
/* protect-zone-agent: PID 1 of a zone, or (--no-init) a process that plays one in namespaces of its own. */
#include "agent.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_WARNINGS 64

void agent_warn(struct agent *a, const char *fmt, ...)
{
	char text[512], **p;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	text_force_utf8(text);
	log_warning(text, NULL);
	if (a->n_warnings == MAX_WARNINGS || !(p = realloc(a->warnings, (a->n_warnings + 1) * sizeof *p)))
		return;
	a->warnings = p;
	p[a->n_warnings] = strdup(text);
	a->n_warnings += p[a->n_warnings] != NULL;
}

void agent_fault(struct agent *a, const char *fmt, ...)
{
	va_list ap;

	if (*a->fault)
		return;
	va_start(ap, fmt);
	vsnprintf(a->fault, sizeof a->fault, fmt, ap);
	va_end(ap);
	text_force_utf8(a->fault);
	log_error(a->fault, NULL);
}

bool agent_valid_id(const char *id)
{
	size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return n && n < ID_CAP && !id[n] && *id != '.' && *id != '-';
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void usage(FILE *to)
{
	fputs("usage: protect-zone-agent --no-init --channel unix:PATH --state-dir DIR\n"
	      "The agent of a zone. Without --no-init it is the init of a virtual machine and takes its channel from the kernel's\n"
	      "command line, edera.agent=virtio:NAME or edera.agent=hvcN.\n",
	      to);
}

static int parse(struct agent *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "channel", required_argument, NULL, 'c' }, { "state-dir", required_argument, NULL, 's' }, { "no-init", no_argument, NULL, 'n' },
		{ "version", no_argument, NULL, 'v' },	     { "help", no_argument, NULL, 'h' },	     { 0 },
	};
	struct edera_error err = EDERA_ERROR_INIT;
	const char *state = NULL;
	bool no_init = false;
	int o;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		if (o == 'c')
			a->channel_name = optarg;
		else if (o == 's')
			state = optarg;
		else if (o == 'n')
			no_init = true;
		else if (o == 'v')
			return puts("protect-zone-agent " PACKAGE_VERSION), 0;
		else
			return usage(o == 'h' ? stdout : stderr), o == 'h' ? 0 : 2;
	}
	if (!no_init || !a->channel_name || !text_starts(a->channel_name, "unix:") || !state || optind < argc)
		return usage(stderr), 2;
	if (path_format(a->state_dir, &err, "%s", state) || path_mkdirs(state, 0700, &err)) {
		log_error(err.msg, NULL);
		return 1;
	}
	return -1;
}

/* Mounts of ours stay ours. crun refuses some arrangements of control groups even when it is to leave them alone: it gets none to see. */
static void settle(struct agent *a)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		agent_warn(a, "cannot have mounts of our own: %s", strerror(errno));
		return;
	}
	if (mount("tmpfs", "/sys/fs/cgroup", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL) < 0)
		agent_warn(a, "cannot hide the control groups: %s", strerror(errno));
	if (getpid() == 1 && mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		agent_warn(a, "cannot mount /proc for the process namespace: %s", strerror(errno));
}

static void on_terminate(uv_signal_t *s, int signum)
{
	agent_shutdown(s->data, 2000, false);
}

static int serve(struct agent *a, uint64_t started)
{
	struct edera_error err = EDERA_ERROR_INIT;
	static uv_loop_t loop;
	static uv_signal_t term;

	uv_loop_init(&loop);
	a->loop = &loop;
	if (getrandom(&a->instance, sizeof a->instance, GRND_NONBLOCK) != sizeof a->instance || !a->instance)
		a->instance = (started << 16 | 1) ^ (uint64_t)time(NULL) << 32;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGPIPE, SIG_IGN);
	if (reaper_start(a, &err) || service_start(a, &err)) {
		log_error(err.msg, NULL);
		return 1;
	}
	uv_signal_init(&loop, &term);
	term.data = a;
	if (!a->init)
		uv_signal_start(&term, on_terminate, SIGTERM);
	a->started_ms = started;
	if (a->init)
		boot_later(a);
	else
		a->settled = true;
	uv_run(&loop, UV_RUN_DEFAULT);
	return 0;
}

int main(int argc, char **argv)
{
	static struct agent a;
	uint64_t started = now_ms();
	int r;

	umask(022);
	if (argc == 3 && !strcmp(argv[1], "--settle"))
		return boot_settle((unsigned)atoi(argv[2]));
	/* As init the arguments are words of the kernel's command line that it did not know. */
	a.init = getpid() == 1 && !(argc > 1 && !strncmp(argv[1], "--", 2));
	if (!a.init) {
		r = parse(&a, argc, argv);
		if (r >= 0)
			return r;
		settle(&a);
		return serve(&a, started);
	}
	strcpy(a.state_dir, "/run/edera");
	fcntl(2, F_SETFL, O_NONBLOCK); /* a console nobody reads must not hold us */
	boot_first(&a);
	serve(&a, started);
	reboot(RB_POWER_OFF); /* an init that returns is a panic */
	return 1;
}
