/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workload/workload.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "cli/workload/console.h"
#include "cli/image/fetch.h"
#include "cli/image/image.h"
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/terminal.h"
#include "cli/wait.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef Protect__Control__V1__WorkloadSpec Spec;
typedef Protect__Control__V1__Workload Workload;

struct args {
	const char *zone, *name, *directory, *user, *hostname, *format;
	bool tty, attach, wait, privileged, read_only;
	struct strings environment, mounts, annotations, scratch;
	struct fetch_args fetch;
};

/* HOST:TARGET, HOST:TARGET:ro. The host's path is made absolute, as the daemon stands elsewhere. */
static int add_mount(Spec *spec, const char *text)
{
	_free_ char *copy = need(strdup(text));
	char *target = strchr(copy, ':'), *mode = target ? strchr(target + 1, ':') : NULL;
	Protect__Control__V1__MountSpec *m;
	char host[PATH_MAX];

	if (target)
		*target++ = 0;
	if (mode)
		*mode++ = 0;
	if (!target || !*copy || *target != '/' || (mode && strcmp(mode, "ro") && strcmp(mode, "rw")))
		return cli_bad_usage("--mount takes HOST:TARGET or HOST:TARGET:ro with an absolute TARGET, not '%s'", text);
	if (!realpath(copy, host))
		return cli_bad_usage("cannot mount '%s': %s", copy, strerror(errno));
	m = message_add(&spec->mounts, &spec->n_mounts, &protect__control__v1__mount_spec__descriptor);
	message_set(&m->host_path, host);
	message_set(&m->target_path, target);
	m->read_only = mode && !strcmp(mode, "ro");
	return 0;
}

static int set_process(Spec *spec, const struct args *a, const struct strings *operands)
{
	Protect__Control__V1__ProcessSpec *p = spec->process = message_new(&protect__control__v1__process_spec__descriptor);
	uint32_t rows, columns;

	for (size_t i = 1; i < operands->n; i++)
		message_add_string(&p->command, &p->n_command, operands->v[i]);
	message_set(&p->working_directory, a->directory);
	if (a->user)
		message_set_user(p, a->user);
	p->tty = a->tty;
	p->stdin = a->attach;
	p->stdout = p->stderr = true;
	if (a->tty && terminal_size(&rows, &columns)) {
		p->terminal_size = message_new(&protect__control__v1__terminal_size__descriptor);
		p->terminal_size->rows = rows;
		p->terminal_size->columns = columns;
	}
	return message_add_environment(p, &a->environment);
}

static int fill(Spec *spec, const struct args *a, const struct strings *operands)
{
	int r = set_process(spec, a, operands);

	message_set(&spec->name, a->name);
	message_set(&spec->hostname, a->hostname);
	if (a->privileged || a->read_only) {
		spec->security = message_new(&protect__control__v1__workload_security_spec__descriptor);
		spec->security->privileged = a->privileged;
		spec->security->read_only_rootfs = a->read_only;
	}
	for (size_t i = 0; !r && i < a->mounts.n; i++)
		r = add_mount(spec, a->mounts.v[i]);
	for (size_t i = 0; i < a->scratch.n; i++) {
		Protect__Control__V1__WorkloadScratchMount *m = message_add(&spec->scratch_mount, &spec->n_scratch_mount, &protect__control__v1__workload_scratch_mount__descriptor);

		message_set(&m->path, a->scratch.v[i]);
	}
	return r ? r : message_add_annotations(&spec->annotations, &spec->n_annotations, &a->annotations);
}

static int fetch(struct cli *cli, const struct args *a, const char *image, Protect__Control__V1__OciImageSpec **ret, struct edera_error *err)
{
	struct fetch f = {
		.image = image, .format = image_format(a->format),
		.overwrite = a->fetch.overwrite, .update = a->fetch.update, .progress = progress_auto(PROGRESS_NONE),
	};
	Protect__Control__V1__PullImageReply *reply _message_ = NULL;
	int r = image_fetch(cli, &f, &reply, err);

	if (!r)
		*ret = steal_ptr(reply->spec);
	return r;
}

static bool is_started(const Workload *w)
{
	return !w || workload_state(w) > PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_CREATED;
}

static int start(struct cli *cli, const char *id, struct edera_error *err)
{
	Protect__Control__V1__StartWorkloadRequest request = PROTECT__CONTROL__V1__START_WORKLOAD_REQUEST__INIT;

	request.workload_id = (char *)id;
	return cli_call(cli, CONTROL, "StartWorkload", &request, NULL, err);
}

static int start_and_wait(struct cli *cli, const struct args *a, const char *id, struct edera_error *err)
{
	struct waiter *w = a->wait ? wait_open(cli, err) : NULL;
	Workload *now _message_ = NULL;
	int r;

	if (a->wait && !w)
		return -EIO;
	r = start(cli, id, err);
	if (!r && w && !cli->interrupted)
		r = wait_workload(w, id, is_started, &now, err);
	wait_close(w);
	if (r || !a->wait)
		return r;
	if (!now)
		return err_set(err, -ECANCELED, "the workload '%s' (%s) was destroyed before it ran", a->name, id);
	if (workload_state(now) == PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_FAILED)
		return err_set(err, -EIO, "the workload '%s' (%s) failed: %s", a->name, id, *workload_failure(now) ? workload_failure(now) : "the daemon gives no reason");
	return 0;
}

/* The console is attached first, so that nothing it says is missed. Returns the workload's exit status. */
static int start_attached(struct cli *cli, const struct args *a, const char *id, struct edera_error *err)
{
	struct console *c = console_open(cli, id, a->tty, err);
	int r;

	if (!c)
		return err->code ? err->code : -EIO;
	r = start(cli, id, err);
	if (!r && !cli->interrupted)
		r = console_run(c, err);
	console_close(c);
	return r;
}

/* Destroys, and sees it gone. */
static int undo(struct cli *cli, const char *id)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct waiter *w;
	int r;

	interrupts_done(cli);
	w = wait_open(cli, &err);
	r = workload_destroy(cli, w, id, &err);
	wait_close(w);
	if (r && r != -ENOENT)
		cli_warn("interrupted, but the workload %s could not be destroyed: %s", id, err.msg);
	else
		cli_warn("interrupted: the workload was destroyed");
	return CLI_INTERRUPTED;
}

static int create(struct cli *cli, const struct args *a, const Protect__Control__V1__CreateWorkloadRequest *request, struct edera_error *err)
{
	Protect__Control__V1__CreateWorkloadReply *reply _message_ = NULL;
	int r = cli_call(cli, CONTROL, "CreateWorkload", request, &reply, err);

	if (r && cli->interrupted) {
		cli_warn("interrupted: %s", err->msg);
		return CLI_INTERRUPTED;
	}
	if (r)
		return r;
	if (!cli->interrupted)
		r = a->attach ? start_attached(cli, a, reply->workload_id, err) : start_and_wait(cli, a, reply->workload_id, err);
	if (cli->interrupted)
		return undo(cli, reply->workload_id);
	if (!r && !a->attach)
		cli_puts(reply->workload_id);
	return r;
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__CreateWorkloadRequest *request _message_ = message_new(&protect__control__v1__create_workload_request__descriptor);
	_free_ char *zone = NULL;
	int r;

	request->spec = message_new(&protect__control__v1__workload_spec__descriptor);
	r = fill(request->spec, a, operands);
	if (!r)
		r = cli_resolve_zone(cli, a->zone, &zone, err);
	if (!r)
		r = interrupts_catch(cli, err);
	if (!r)
		r = fetch(cli, a, operands->v[0], &request->spec->image, err);
	if (cli->interrupted)
		return CLI_INTERRUPTED;
	if (r)
		return r;
	message_set(&request->spec->zone_id, zone);
	return create(cli, a, request, err);
}

static const char *const formats[] = { "squashfs", "erofs", NULL };

static const struct opt options[] = {
	{ "zone", 'z', OPT_STRING, AT(struct args, zone), "ZONE", "the zone it runs in, by name or id", .required = true, .names = NAMES_ZONE },
	{ "name", 'n', OPT_STRING, AT(struct args, name), "NAME", "what to call it", .required = true },
	{ "tty", 't', OPT_FLAG, AT(struct args, tty), NULL, "give it a terminal" },
	{ "attach", 'a', OPT_FLAG, AT(struct args, attach), NULL, "connect stdin, stdout and stderr; the exit status is the workload's" },
	{ "wait", 'W', OPT_FLAG, AT(struct args, wait), NULL, "return when it runs, and fail if it does not come so far" },
	{ "env", 'e', OPT_LIST, AT(struct args, environment), "KEY=VALUE", "set in its environment; KEY alone takes the value it has here" },
	{ "workdir", 'w', OPT_STRING, AT(struct args, directory), "DIR", "where it starts", .def = "what the image says", .alias = "working-directory" },
	{ "mount", 'm', OPT_LIST, AT(struct args, mounts), "HOST:TARGET[:ro]", "a file or directory of this host, seen at TARGET" },
	{ "hostname", 0, OPT_STRING, AT(struct args, hostname), "NAME", "the host name it sees" },
	{ "user", 'u', OPT_STRING, AT(struct args, user), "USER[:GROUP]", "who it runs as, by name or number", .def = "what the image says" },
	{ "privileged", 0, OPT_FLAG, AT(struct args, privileged), NULL, "all privileges within its zone" },
	{ "read-only", 0, OPT_FLAG, AT(struct args, read_only), NULL, "its root filesystem cannot be written to" },
	{ "mount-scratch-disk", 0, OPT_LIST, AT(struct args, scratch), "TARGET", "the zone's scratch disk, seen at TARGET" },
	{ "annotation", 'A', OPT_LIST, AT(struct args, annotations), "KEY=VALUE", "a note on the workload" },
	{ "image-format", 's', OPT_STRING, AT(struct args, format), "FORMAT", "what the image is packed as and mounted from", .def = "squashfs", .choices = formats },
	FETCH_OPTIONS(struct args),
};

static const struct example examples[] = {
	{ "protect workload launch --zone web --name hello -t -a docker.io/library/alpine:3.20 uname -r", "its output, then its exit status" },
	{ "protect workload launch --zone web --name db -e PGDATA=/data -m /srv/db:/data docker.io/library/postgres:16", NULL },
	{ 0 },
};

const struct command verb_workload_launch = {
	.name = "launch", .summary = "Run a container in a zone",
	.about = "Options come before IMAGE; everything behind it is the command to run in place of the image's own. Without --attach its id is printed once it has "
		 "started, and 'workload logs' shows what it says.\n\nWith --attach and --tty, Ctrl+] leaves it running. An interrupt (Ctrl+C where it is not the "
		 "workload's) destroys it; the exit status is 130 then.\n\nIMAGE is what 'image pull' takes, containerd:NAME among it.",
	.operands = "IMAGE [COMMAND...]", .min = 1, .max = ANY, .end_after = 1, .names = NAMES_IMAGE, OPTIONS(options), .args_size = sizeof(struct args), .run = run,
	.examples = examples,
};
