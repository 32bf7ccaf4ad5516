/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a workload in its zone: container made, started, followed, stopped, unmade. */
#include "base/log.h"
#include "share.h"
#include "workload_private.h"
#include "zone.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define AGENT_TIMEOUT_MS 120000
#define STREAM_OF(s) ((s) == AGENT_STDERR ? 2 : 1)

/* ---- its first process ---- */

static void process_output(struct agent_process *p, enum agent_stream stream, uint64_t offset, const uint8_t *data, size_t len, void *user)
{
	struct workload *w = user;
	struct edera_error err = EDERA_ERROR_INIT;

	(void)p;
	if (output_append(w->output, STREAM_OF(stream), offset, data, len, &err))
		log_warning(err.msg, "workload", w->pb->id, NULL);
}

static void process_writable(struct agent_process *p, void *user)
{
	struct workload *w = user;

	(void)p;
	for (struct workload_writer *x = w->writers, *next; x; x = next) {
		next = x->next;
		x->writable(x);
	}
}

static void process_done(struct agent_process *p, const struct agent_exit *ex, const struct edera_error *err, void *user)
{
	struct workload *w = user;
	PB(WorkloadStatus) *st = w->pb->status;

	if (err && err->code == -ECANCELED)
		return; /* the client is being freed: whoever frees it says what becomes of the workload */
	w->process = NULL;
	agent_process_free(p, false);
	workload_stop_kill_timer(w);
	if (err) {
		workload_fail(w, err->code, err->msg);
		return;
	}
	if (!st->exit_status) {
		st->exit_status = pb_xcalloc(1, sizeof *st->exit_status);
		protect__control__v1__workload_exit_status__init(st->exit_status);
	}
	st->exit_status->code = ex->code;
	if (workload_state(w) != WSTATE(DESTROYING))
		workload_set_state(w, ex->oom ? WSTATE(OOMKILLED) : WSTATE(COMPLETED));
	output_end(w->output);
}

static const struct agent_process_ops process_ops = { process_output, process_writable, process_done };

void workload_lag(void *user, bool behind)
{
	struct workload *w = user;

	if (w->process)
		(behind ? agent_process_pause : agent_process_resume)(w->process);
}

static void follow(struct workload *w, struct zone *z)
{
	struct record *rec = output_record(w->output);
	struct agent_offsets from = { record_stream_end(rec, 1), record_stream_end(rec, 2) };

	w->process = agent_process_open(z->agent, w->pb->id, &from, &process_ops, w);
}

/* ---- calls to the agent; the answers find the workload by its id ---- */

struct agent_job {
	struct daemon *d;
	char id[40];
};

static struct agent_job *job_for(const struct workload *w)
{
	struct agent_job *j = pb_xcalloc(1, sizeof *j);

	j->d = w->d;
	snprintf(j->id, sizeof j->id, "%s", w->pb->id);
	return j;
}

static struct workload *job_workload(void *user)
{
	struct agent_job *j = user;
	struct workload *w = workload_by_id(j->d, j->id);

	free(j);
	return w;
}

static void started(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	struct workload *w = job_workload(user);

	(void)reply;
	if (!w || workload_ended(w) || (err && err->code == -ECANCELED))
		return;
	if (err)
		workload_fail(w, err->code, err->msg);
	else if (workload_state(w) == WSTATE(CREATED))
		workload_set_state(w, WSTATE(RUNNING));
}

static void start_now(struct workload *w, struct zone *z)
{
	Edera__Agent__V1__StartWorkloadRequest q = EDERA__AGENT__V1__START_WORKLOAD_REQUEST__INIT;

	q.id = w->pb->id;
	agent_call(z->agent, "StartWorkload", &q.base, AGENT_TIMEOUT_MS, started, job_for(w));
}

static void created(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	struct workload *w = job_workload(user);
	struct zone *z = w ? workload_zone(w) : NULL;

	(void)reply;
	if (!w || !z || workload_ended(w) || (err && err->code == -ECANCELED))
		return;
	if (err) {
		workload_fail(w, err->code, err->msg);
		return;
	}
	follow(w, z);
	workload_set_state(w, WSTATE(CREATED));
	if (w->start_wanted)
		start_now(w, z);
}

/* The spec's mounts as the agent is told of them: by tag. Arrays and strings live until the call is made. */
struct agent_mounts {
	Edera__Agent__V1__Mount *items, **list;
	char (*tags)[SHARE_TAG_CAP];
};

static struct agent_mounts make_mounts(const struct workload *w)
{
	size_t n = w->pb->spec->n_mounts;
	struct agent_mounts m = { pb_xcalloc(n + 1, sizeof *m.items), pb_xcalloc(n + 1, sizeof *m.list), pb_xcalloc(n + 1, sizeof *m.tags) };

	for (size_t i = 0; i < n; i++) {
		const PB(MountSpec) *spec = w->pb->spec->mounts[i];
		struct share s = { .workload_id = w->pb->id, .index = i };
		const char *file = share_file(spec->host_path);

		edera__agent__v1__mount__init(&m.items[i]);
		share_tag(&s, m.tags[i]);
		m.items[i].target_path = spec->target_path;
		m.items[i].read_only = spec->read_only;
		m.items[i].source_case = EDERA__AGENT__V1__MOUNT__SOURCE_VIRTIOFS_TAG;
		m.items[i].virtiofs_tag = m.tags[i];
		m.items[i].file = file ? (char *)file : (char *)"";
		m.list[i] = &m.items[i];
	}
	return m;
}

static void free_mounts(struct agent_mounts *m)
{
	free(m->items);
	free(m->list);
	free(m->tags);
}

void workload_attached(struct workload *w, const struct buf *config)
{
	Edera__Agent__V1__CreateWorkloadRequest q = EDERA__AGENT__V1__CREATE_WORKLOAD_REQUEST__INIT;
	const PbWorkloadSpec *s = w->pb->spec;
	struct zone *z = workload_zone(w);
	struct agent_mounts mounts;
	char *scratch[64];

	if (!z || !zone_ready(z) || workload_ended(w))
		return;
	mounts = make_mounts(w);
	q.n_mounts = s->n_mounts;
	q.mounts = mounts.list;
	q.id = w->pb->id;
	q.disk_serial = w->serial;
	q.image_config.data = config->data;
	q.image_config.len = config->len;
	q.process = s->process;
	q.security = s->security;
	/* A name that is too long for a host leaves the choice to the agent. */
	q.hostname = *s->hostname ? s->hostname : strlen(s->name) < 64 ? s->name : (char *)"";
	q.n_cgroup_limits = s->n_cgroup_limits;
	q.cgroup_limits = s->cgroup_limits;
	for (size_t i = 0; i < s->n_scratch_mount && i < 64; i++)
		scratch[q.n_scratch_paths++] = s->scratch_mount[i]->path;
	q.scratch_paths = scratch;
	if (s->_oom_score_adj_case == PROTECT__CONTROL__V1__WORKLOAD_SPEC___OOM_SCORE_ADJ_OOM_SCORE_ADJ) {
		q._oom_score_adj_case = EDERA__AGENT__V1__CREATE_WORKLOAD_REQUEST___OOM_SCORE_ADJ_OOM_SCORE_ADJ;
		q.oom_score_adj = s->oom_score_adj;
	}
	agent_call(z->agent, "CreateWorkload", &q.base, AGENT_TIMEOUT_MS, created, job_for(w));
	free_mounts(&mounts);
}

void workload_set_up(struct workload *w)
{
	struct zone *z = workload_zone(w);

	if (w->setting_up || !z)
		return;
	w->setting_up = true;
	workload_submit_disk(w, z, true);
}

int workload_start(struct workload *w, struct edera_error *err)
{
	struct zone *z = workload_zone(w);

	switch (workload_state(w)) {
	case WSTATE(CREATING):
		w->start_wanted = true;
		return 0;
	case WSTATE(CREATED):
		break;
	case WSTATE(RUNNING):
		return 0;
	default:
		return err_set(err, -EBUSY, "the workload '%s' is %s and cannot be started again; launch another one", w->pb->spec->name, workload_state_name(workload_state(w)));
	}
	if (!z || !zone_ready(z))
		return z ? zone_not_ready(z, err) : err_set(err, -ENOENT, "the zone of the workload '%s' is gone", w->pb->spec->name);
	if (!w->start_wanted)
		start_now(w, z);
	w->start_wanted = true;
	return 0;
}

static void kill_now(uv_timer_t *t)
{
	struct workload *w = t->data;

	workload_stop_kill_timer(w);
	if (w->process)
		agent_process_signal(w->process, SIGKILL);
}

int workload_stop(struct workload *w, uint64_t timeout_s, struct edera_error *err)
{
	if (workload_ended(w))
		return 0;
	if (workload_state(w) != WSTATE(RUNNING) || !w->process)
		return err_set(err, -EBUSY, "the workload '%s' is %s, not running", w->pb->spec->name, workload_state_name(workload_state(w)));
	if (!timeout_s) {
		agent_process_signal(w->process, SIGKILL);
		return 0;
	}
	agent_process_signal(w->process, 0);
	if (!w->kill_timer) {
		w->kill_timer = pb_xcalloc(1, sizeof *w->kill_timer);
		uv_timer_init(w->d->loop, w->kill_timer);
		w->kill_timer->data = w;
	}
	uv_timer_start(w->kill_timer, kill_now, (timeout_s > 86400 ? 86400 : timeout_s) * 1000, 0);
	return 0;
}

static void deleted(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	struct workload *w = job_workload(user);
	struct zone *z = w ? workload_zone(w) : NULL;

	(void)reply;
	if (!w || (err && err->code == -ECANCELED))
		return;
	if (err)
		log_warning("the zone could not take a workload apart", "workload", w->pb->id, "error", err->msg, NULL);
	if (z && w->attached && !zone_ending(z))
		workload_submit_disk(w, z, false);
	else
		workload_forget(w);
}

void workload_destroy(struct workload *w)
{
	Edera__Agent__V1__DeleteWorkloadRequest q = EDERA__AGENT__V1__DELETE_WORKLOAD_REQUEST__INIT;
	struct zone *z = workload_zone(w);

	if (workload_state(w) == WSTATE(DESTROYING))
		return;
	workload_stop_kill_timer(w);
	workload_set_state(w, WSTATE(DESTROYING));
	if (!z || !z->agent || zone_ending(z)) {
		workload_unfollow(w);
		workload_forget(w);
		return;
	}
	q.id = w->pb->id;
	agent_call(z->agent, "DeleteWorkload", &q.base, AGENT_TIMEOUT_MS, deleted, job_for(w));
}

/* ---- what zones tell ---- */

#define EACH_OF_ZONE(w, z) \
	for (struct workload *w = (z)->d->workloads, *next_##w; w && (next_##w = w->next, true); w = next_##w) \
		if (!strcmp(w->pb->spec->zone_id, (z)->pb->id))

void workload_zone_ready(struct zone *z)
{
	EACH_OF_ZONE(w, z) {
		if (w->unmake)
			workload_destroy(w);
		else if (workload_state(w) == WSTATE(CREATING))
			workload_set_up(w);
		else if (!workload_ended(w) && !w->process)
			follow(w, z);
	}
}

void workload_zone_failed(struct zone *z, const char *why)
{
	EACH_OF_ZONE(w, z) {
		if (workload_state(w) == WSTATE(DESTROYING))
			workload_forget(w); /* there is no agent left to answer for it, and no VM to take its disk out of */
		else if (!workload_ended(w))
			workload_fail(w, -ENOTCONN, why);
	}
}

void workload_zone_ending(struct zone *z)
{
	EACH_OF_ZONE(w, z) {
		if (!workload_ended(w))
			workload_fail(w, -ECANCELED, "its zone was destroyed");
	}
}

void workload_zone_gone(struct zone *z)
{
	EACH_OF_ZONE(w, z) {
		w->pb->status->state = WSTATE(DESTROYING);
		workload_forget(w);
	}
}

int workload_recover(struct daemon *d, PbWorkload *pb, struct edera_error *err)
{
	struct workload *w;

	if (!pb->spec || !pb->status || !pb->spec->image || strlen(pb->id) < 36) {
		pb_free(pb);
		return err_set(err, -EPROTO, "the state database holds an incomplete workload");
	}
	w = workload_new(d, pb, err);
	if (!w) {
		pb_free(pb);
		return err->code ? err->code : -EIO;
	}
	w->attached = true; /* taking out a disk that is not there is no error */
	if (!workload_zone(w)) {
		workload_forget(w);
		return 0;
	}
	if (workload_ended(w))
		output_end(w->output);
	if (workload_state(w) == WSTATE(DESTROYING)) {
		w->pb->status->state = WSTATE(FAILED);
		w->unmake = true;
	}
	return 0;
}
