/* SPDX-License-Identifier: Apache-2.0 */
/* Drives a zone agent over its socket, for the tests: agent-drive SOCKET VERB [OPTIONS] [ID] [-- COMMAND...] */
#include "agent/agent_client.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CONNECT_MS 5
#define INPUT_MS 2
#define CALL_MS 60000

static struct {
	uv_loop_t loop;
	struct agent_client *client;
	const char *socket;
	uv_timer_t connect, closer, slow, input;
	unsigned closes_left, closes_done; /* --close N: how often the channel is still to be cut */
	uint64_t close_every;
	int status;
	/* options */
	bool tty, want_stdin, privileged, slow_reader, read_only;
	const char *workload, *serial, *config, *hostname, *user, *dir;
	const char *mounts[8], *limits[8], *env[8];
	size_t n_mounts, n_limits, n_env;
	unsigned count;
	char **command;
	size_t n_command;
} d;

static void finish(int status)
{
	d.status = status;
	uv_stop(&d.loop);
}

/* ---- the channel ---- */

static void on_connect(uv_timer_t *t)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof sa.sun_path, "%s", d.socket);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0) {
		agent_client_attach(d.client, fd, NULL);
		return;
	}
	if (fd >= 0)
		close(fd);
	uv_timer_start(&d.connect, on_connect, CONNECT_MS, 0);
}

static void on_lost(struct agent_client *a, const struct edera_error *why, void *user)
{
	uv_timer_start(&d.connect, on_connect, CONNECT_MS, 0);
}

/* Cuts the channel in mid-traffic: attaching another one closes the first. */
static void on_close(uv_timer_t *t)
{
	if (!d.closes_left || !agent_client_connected(d.client))
		return;
	d.closes_left--;
	d.closes_done++;
	on_connect(&d.connect);
}

static void on_connected(struct agent_client *a, uint64_t instance, void *user)
{
}

static const struct agent_client_ops client_ops = { on_connected, on_lost };

/* ---- calls ---- */

static int report(const struct edera_error *err)
{
	fprintf(stderr, "agent-drive: %s\n", err->msg);
	finish(125);
	return 125;
}

static void on_done(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	if (err)
		report(err);
	else
		finish(0);
}

static void on_status(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	const Edera__Agent__V1__StatusReply *r = (const Edera__Agent__V1__StatusReply *)reply;

	if (err) {
		report(err);
		return;
	}
	printf("version=%s kernel=%s uptime_ms=%llu boot_ms=%llu configured=%d\n", r->version, r->kernel_release, (unsigned long long)r->uptime_ms,
	       (unsigned long long)r->boot_ms, r->configured);
	for (size_t i = 0; i < r->n_warnings; i++)
		printf("warning: %s\n", r->warnings[i]);
	finish(0);
}

static void on_configured(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	const Edera__Agent__V1__ConfigureReply *r = (const Edera__Agent__V1__ConfigureReply *)reply;

	if (err) {
		report(err);
		return;
	}
	for (size_t i = 0; i < r->n_warnings; i++)
		printf("warning: %s\n", r->warnings[i]);
	finish(0);
}

static void on_list(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	const Edera__Agent__V1__ListReply *r = (const Edera__Agent__V1__ListReply *)reply;

	if (err) {
		report(err);
		return;
	}
	for (size_t i = 0; i < r->n_workloads; i++) {
		const Edera__Agent__V1__WorkloadInfo *w = r->workloads[i];

		printf("workload %s phase=%d", w->id, (int)w->phase);
		if (w->exit)
			printf(" code=%d oom=%d", w->exit->code, w->exit->oom);
		putchar('\n');
	}
	for (size_t i = 0; i < r->n_processes; i++)
		printf("process %s workload=%s pid=%d\n", r->processes[i]->id, r->processes[i]->workload_id, r->processes[i]->pid);
	finish(0);
}

static void on_metrics(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	const Edera__Agent__V1__MetricsReply *r = (const Edera__Agent__V1__MetricsReply *)reply;

	if (err) {
		report(err);
		return;
	}
	printf("memory_total=%llu memory_available=%llu processes=%u workloads=%zu\n", (unsigned long long)r->memory_total,
	       (unsigned long long)r->memory_available, r->processes, r->n_workloads);
	for (size_t i = 0; i < r->n_workloads; i++)
		printf("workload %s memory=%llu processes=%u\n", r->workloads[i]->id, (unsigned long long)r->workloads[i]->memory, r->workloads[i]->processes);
	finish(0);
}

/* ---- processes ---- */

struct running {
	char id[64];
	struct agent_process *p;
	uint64_t next[3];
};

#define RUNNING_MAX 256
static struct running runs[RUNNING_MAX];
static unsigned running_left;
static bool stdin_reading;

static void on_slow(uv_timer_t *t)
{
	struct running *r = t->data;

	if (r->p)
		agent_process_resume(r->p);
}

static void on_output(struct agent_process *p, enum agent_stream s, uint64_t offset, const uint8_t *data, size_t len, void *user)
{
	struct running *r = user;

	if (r->next[s] == UINT64_MAX)
		r->next[s] = offset; /* attached to what the zone still held */
	if (offset != r->next[s]) {
		fprintf(stderr, "agent-drive: output came from %llu instead of %llu\n", (unsigned long long)offset, (unsigned long long)r->next[s]);
		exit(124);
	}
	r->next[s] += len;
	if (d.count <= 1) {
		fwrite(data, 1, len, s == AGENT_STDOUT ? stdout : stderr);
		fflush(stdout);
	}
	if (d.slow_reader) {
		agent_process_pause(p);
		d.slow.data = r;
		uv_timer_start(&d.slow, on_slow, 2, 0);
	}
}

static void read_stdin(struct agent_process *);

static void on_stdin(uv_timer_t *t)
{
	if (stdin_reading)
		read_stdin(t->data);
}

static void read_stdin(struct agent_process *p)
{
	static uint8_t bytes[16384];

	while (stdin_reading) {
		struct pollfd ready = { .fd = 0, .events = POLLIN };
		static ssize_t have;
		int r;

		if (!have && !poll(&ready, 1, 0)) { /* a file cannot be watched, a pipe must not hold the loop */
			d.input.data = p;
			uv_timer_start(&d.input, on_stdin, INPUT_MS, 0);
			return;
		}
		if (!have)
			have = read(0, bytes, sizeof bytes);
		if (have <= 0) {
			stdin_reading = false;
			agent_process_close_stdin(p);
			return;
		}
		r = agent_process_write(p, bytes, (size_t)have);
		if (r == -EAGAIN)
			return;
		have = 0;
		if (r)
			stdin_reading = false;
	}
}

static void on_writable(struct agent_process *p, void *user)
{
	read_stdin(p);
}

static void on_end(struct agent_process *p, const struct agent_exit *exit, const struct edera_error *err, void *user)
{
	struct running *r = user;

	r->p = NULL;
	agent_process_free(p, !d.serial);
	stdin_reading = false;
	if (err) {
		report(err);
		return;
	}
	if (exit->oom)
		fprintf(stderr, "agent-drive: out of memory\n");
	d.status = exit->code > d.status ? exit->code : d.status;
	if (!--running_left)
		uv_stop(&d.loop);
}

static const struct agent_process_ops process_ops = { on_output, on_writable, on_end };

/* An argument of ours, cut in place. */
static char *split(const char *pair, char at)
{
	char *p = (char *)pair, *cut = strchr(p, at);

	if (!cut) {
		fprintf(stderr, "agent-drive: '%s' has no '%c'\n", pair, at);
		exit(2);
	}
	*cut = 0;
	return p;
}

static void fill_process(Protect__Control__V1__ProcessSpec *s)
{
	static Protect__Control__V1__EnvironmentVariableSpec env[8], *list[8];
	static Protect__Control__V1__IdOrNameValue user;

	protect__control__v1__process_spec__init(s);
	s->command = d.command;
	s->n_command = d.n_command;
	s->tty = d.tty;
	s->stdin = d.want_stdin;
	s->working_directory = d.dir ? (char *)d.dir : s->working_directory;
	for (size_t i = 0; i < d.n_env; i++) {
		char *copy = split(d.env[i], '='), *value = copy + strlen(copy) + 1;

		protect__control__v1__environment_variable_spec__init(&env[i]);
		env[i].key = copy;
		env[i].value = value;
		list[i] = &env[i];
	}
	s->n_environment = d.n_env;
	s->environment = list;
	if (d.user) {
		protect__control__v1__id_or_name_value__init(&user);
		user.id_or_name_case = PROTECT__CONTROL__V1__ID_OR_NAME_VALUE__ID_OR_NAME_NAME;
		user.name = (char *)d.user;
		s->user = &user;
	}
}

static void do_exec(const char *id)
{
	Edera__Agent__V1__ExecRequest q = EDERA__AGENT__V1__EXEC_REQUEST__INIT;
	Protect__Control__V1__ProcessSpec s;

	fill_process(&s);
	q.process = &s;
	q.workload_id = (char *)(d.workload ? d.workload : "");
	running_left = d.count < RUNNING_MAX ? d.count : RUNNING_MAX;
	for (unsigned i = 0; i < d.count && i < RUNNING_MAX; i++) {
		struct running *r = &runs[i];

		snprintf(r->id, sizeof r->id, "%s-%u", id, i);
		q.id = r->id;
		r->p = agent_process_exec(d.client, &q, &process_ops, r);
		if (d.want_stdin && !i) {
			stdin_reading = true;
			read_stdin(r->p);
		}
	}
}

static void do_attach(const char *id)
{
	struct running *r = &runs[0];

	running_left = 1;
	d.serial = id; /* a workload is not released at its end */
	r->next[AGENT_STDOUT] = r->next[AGENT_STDERR] = UINT64_MAX;
	r->p = agent_process_open(d.client, id, NULL, &process_ops, r);
	if (d.want_stdin) {
		stdin_reading = true;
		read_stdin(r->p);
	}
}

static void do_create(const char *id)
{
	Edera__Agent__V1__CreateWorkloadRequest q = EDERA__AGENT__V1__CREATE_WORKLOAD_REQUEST__INIT;
	Protect__Control__V1__WorkloadSecuritySpec security = PROTECT__CONTROL__V1__WORKLOAD_SECURITY_SPEC__INIT;
	Protect__Control__V1__CgroupLimit limits[8], *limit_list[8];
	Edera__Agent__V1__Mount mounts[8], *mount_list[8];
	Protect__Control__V1__ProcessSpec s;
	_buf_ struct buf config = BUF_INIT;
	struct edera_error err = EDERA_ERROR_INIT;

	if (d.config && path_read_file(d.config, 4 << 20, &config, &err)) {
		report(&err);
		return;
	}
	fill_process(&s);
	q.id = (char *)id;
	q.disk_serial = (char *)d.serial;
	q.image_config = (ProtobufCBinaryData){ .len = config.len, .data = config.data };
	q.process = &s;
	q.security = &security;
	security.privileged = d.privileged;
	security.read_only_rootfs = d.read_only;
	if (d.hostname)
		q.hostname = (char *)d.hostname;
	for (size_t i = 0; i < d.n_limits; i++) {
		char *copy = split(d.limits[i], '='), *value = copy + strlen(copy) + 1;

		protect__control__v1__cgroup_limit__init(&limits[i]);
		limits[i].limit_name = copy;
		limits[i].value = value;
		limit_list[i] = &limits[i];
	}
	q.cgroup_limits = limit_list;
	q.n_cgroup_limits = d.n_limits;
	for (size_t i = 0; i < d.n_mounts; i++) {
		char *copy = split(d.mounts[i], ':'), *target = copy + strlen(copy) + 1;

		edera__agent__v1__mount__init(&mounts[i]);
		mounts[i].source_case = EDERA__AGENT__V1__MOUNT__SOURCE_ZONE_PATH;
		mounts[i].zone_path = copy;
		mounts[i].target_path = target;
		mount_list[i] = &mounts[i];
	}
	q.mounts = mount_list;
	q.n_mounts = d.n_mounts;
	agent_call(d.client, "CreateWorkload", &q.base, CALL_MS, on_done, NULL);
}

/* ---- the command line ---- */

static int start(const char *verb, const char *id)
{
	if (!strcmp(verb, "status")) {
		Edera__Agent__V1__StatusRequest q = EDERA__AGENT__V1__STATUS_REQUEST__INIT;

		agent_call(d.client, "Status", &q.base, CALL_MS, on_status, NULL);
	} else if (!strcmp(verb, "list")) {
		Edera__Agent__V1__ListRequest q = EDERA__AGENT__V1__LIST_REQUEST__INIT;

		agent_call(d.client, "List", &q.base, CALL_MS, on_list, NULL);
	} else if (!strcmp(verb, "metrics")) {
		Edera__Agent__V1__MetricsRequest q = EDERA__AGENT__V1__METRICS_REQUEST__INIT;

		agent_call(d.client, "Metrics", &q.base, CALL_MS, on_metrics, NULL);
	} else if (!strcmp(verb, "configure")) {
		Edera__Agent__V1__ConfigureRequest q = EDERA__AGENT__V1__CONFIGURE_REQUEST__INIT;

		q.hostname = (char *)(d.hostname ? d.hostname : "");
		q.addons_serial = (char *)(d.serial ? d.serial : "");
		q.modules = d.command;
		q.n_modules = d.n_command;
		agent_call(d.client, "Configure", &q.base, CALL_MS, on_configured, NULL);
	} else if (!strcmp(verb, "exec")) {
		do_exec(id);
	} else if (!strcmp(verb, "attach")) {
		do_attach(id);
	} else if (!strcmp(verb, "create")) {
		do_create(id);
	} else if (!strcmp(verb, "start")) {
		Edera__Agent__V1__StartWorkloadRequest q = EDERA__AGENT__V1__START_WORKLOAD_REQUEST__INIT;

		q.id = (char *)id;
		agent_call(d.client, "StartWorkload", &q.base, CALL_MS, on_done, NULL);
	} else if (!strcmp(verb, "delete")) {
		Edera__Agent__V1__DeleteWorkloadRequest q = EDERA__AGENT__V1__DELETE_WORKLOAD_REQUEST__INIT;

		q.id = (char *)id;
		agent_call(d.client, "DeleteWorkload", &q.base, CALL_MS, on_done, NULL);
	} else if (!strcmp(verb, "release")) {
		Edera__Agent__V1__ReleaseRequest q = EDERA__AGENT__V1__RELEASE_REQUEST__INIT;

		q.id = (char *)id;
		agent_call(d.client, "Release", &q.base, CALL_MS, on_done, NULL);
	} else if (!strcmp(verb, "signal")) {
		Edera__Agent__V1__SignalRequest q = EDERA__AGENT__V1__SIGNAL_REQUEST__INIT;

		q.id = (char *)id;
		q.signal = (int)d.count;
		agent_call(d.client, "Signal", &q.base, CALL_MS, on_done, NULL);
	} else if (!strcmp(verb, "shutdown")) {
		Edera__Agent__V1__ShutdownRequest q = EDERA__AGENT__V1__SHUTDOWN_REQUEST__INIT;

		q.grace_ms = 2000;
		agent_call(d.client, "Shutdown", &q.base, CALL_MS, on_done, NULL);
	} else {
		return -1;
	}
	return 0;
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "tty", 0, NULL, 't' },      { "stdin", 0, NULL, 'i' },    { "privileged", 0, NULL, 'P' }, { "slow", 0, NULL, 'l' },
		{ "workload", 1, NULL, 'w' }, { "serial", 1, NULL, 's' },   { "config", 1, NULL, 'c' },	    { "hostname", 1, NULL, 'h' },
		{ "user", 1, NULL, 'u' },     { "mount", 1, NULL, 'm' },    { "limit", 1, NULL, 'L' },	    { "env", 1, NULL, 'e' },
		{ "count", 1, NULL, 'n' },    { "close", 1, NULL, 'x' },    { "close-every", 1, NULL, 'X' }, { "dir", 1, NULL, 'D' },
		{ "read-only", 0, NULL, 'r' }, { 0 },
	};
	int o;

	d.count = 1;
	d.close_every = 10;
	while ((o = getopt_long(argc, argv, "+", options, NULL)) >= 0) {
		switch (o) {
		case 't': d.tty = true; break;
		case 'i': d.want_stdin = true; break;
		case 'P': d.privileged = true; break;
		case 'r': d.read_only = true; break;
		case 'l': d.slow_reader = true; break;
		case 'w': d.workload = optarg; break;
		case 's': d.serial = optarg; break;
		case 'c': d.config = optarg; break;
		case 'h': d.hostname = optarg; break;
		case 'u': d.user = optarg; break;
		case 'D': d.dir = optarg; break;
		case 'm': d.mounts[d.n_mounts++ % 8] = optarg; break;
		case 'L': d.limits[d.n_limits++ % 8] = optarg; break;
		case 'e': d.env[d.n_env++ % 8] = optarg; break;
		case 'n': d.count = (unsigned)atoi(optarg); break;
		case 'x': d.closes_left = (unsigned)atoi(optarg); break;
		case 'X': d.close_every = (uint64_t)atoi(optarg); break;
		default: return -1;
		}
	}
	return optind;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[2] : "", *id;
	int at;

	signal(SIGPIPE, SIG_IGN);
	if (argc < 3) {
		fprintf(stderr, "usage: agent-drive SOCKET VERB [OPTIONS] [ID] [-- COMMAND...]\n");
		return 2;
	}
	d.socket = argv[1];
	argc -= 2;
	argv += 2;
	at = parse(argc, argv);
	id = at > 0 && at < argc && strcmp(argv[at - 1], "--") ? argv[at++] : "drive";
	if (at < argc && !strcmp(argv[at], "--"))
		at++;
	d.command = argv + at;
	d.n_command = at > 0 ? (size_t)(argc - at) : 0;
	uv_loop_init(&d.loop);
	uv_timer_init(&d.loop, &d.connect);
	uv_timer_init(&d.loop, &d.closer);
	uv_timer_init(&d.loop, &d.slow);
	uv_timer_init(&d.loop, &d.input);
	d.client = agent_client_new(&d.loop, &client_ops, NULL);
	on_connect(&d.connect);
	if (d.closes_left)
		uv_timer_start(&d.closer, on_close, d.close_every, d.close_every);
	if (at < 0 || start(verb, id) < 0) {
		fprintf(stderr, "agent-drive: unknown verb or option: %s\n", verb);
		return 2;
	}
	uv_run(&d.loop, UV_RUN_DEFAULT);
	if (d.close_every && d.closes_done)
		fprintf(stderr, "agent-drive: the channel was cut %u times\n", d.closes_done);
	agent_client_free(d.client);
	uv_close((uv_handle_t *)&d.connect, NULL);
	uv_close((uv_handle_t *)&d.closer, NULL);
	uv_close((uv_handle_t *)&d.slow, NULL);
	uv_close((uv_handle_t *)&d.input, NULL);
	uv_run(&d.loop, UV_RUN_NOWAIT);
	fflush(stdout);
	return d.status;
}
