/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"
#include "base/log.h"
#include "base/text.h"
#include "workload_private.h"
#include "zone.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

const char *workload_state_name(PB(WorkloadState) s)
{
	switch (s) {
	case WSTATE(CREATING): return "creating";
	case WSTATE(CREATED): return "created";
	case WSTATE(RUNNING): return "running";
	case WSTATE(COMPLETED): return "completed";
	case WSTATE(DESTROYING): return "destroying";
	case WSTATE(DESTROYED): return "destroyed";
	case WSTATE(FAILED): return "failed";
	case WSTATE(OOMKILLED): return "oomkilled";
	default: return "unknown";
	}
}

PB(WorkloadState) workload_state(const struct workload *w) { return w->pb->status->state; }

bool workload_ended(const struct workload *w)
{
	PB(WorkloadState) s = workload_state(w);

	return s != WSTATE(CREATING) && s != WSTATE(CREATED) && s != WSTATE(RUNNING);
}

struct workload *workload_by_id(const struct daemon *d, const char *id)
{
	for (struct workload *w = d->workloads; w; w = w->next)
		if (!strcmp(w->pb->id, id))
			return w;
	return NULL;
}

struct workload *workload_by_name(const struct daemon *d, const char *name)
{
	struct workload *ended = NULL;

	for (struct workload *w = d->workloads; w; w = w->next) {
		if (strcmp(w->pb->spec->name, name))
			continue;
		if (!workload_ended(w))
			return w;
		if (!ended || workload_state(ended) == WSTATE(DESTROYING))
			ended = w;
	}
	return ended;
}

static bool is_image(const PB(OciImageSpec) *i, const char *digest, uint32_t format)
{
	return i && i->format == format && !strcmp(i->digest, digest);
}

struct zone *workload_zone(const struct workload *w) { return zone_by_id(w->d, w->pb->spec->zone_id); }

static void add_user(char ***users, size_t *n, const char *kind, const char *name, const struct zone *zone)
{
	struct buf b = BUF_INIT;

	buf_printf(&b, "%s %s%s%s", kind, name, zone ? " in the zone " : "", zone ? zone->pb->spec->name : "");
	*users = reallocarray(*users, *n + 2, sizeof **users);
	if (!*users || !((*users)[(*n)++] = buf_steal(&b)))
		abort();
	(*users)[*n] = NULL;
}

char **workload_image_users(const struct daemon *d, const char *digest, uint32_t format, size_t *ret_n)
{
	char **users = NULL;
	size_t n = 0;

	for (struct zone *z = d->zones; z; z = z->next)
		if (is_image(z->pb->spec->kernel, digest, format) || is_image(z->pb->spec->initrd, digest, format))
			add_user(&users, &n, "zone", z->pb->spec->name, NULL);
	for (struct workload *w = d->workloads; w; w = w->next)
		if (is_image(w->pb->spec->image, digest, format))
			add_user(&users, &n, "workload", w->pb->spec->name, workload_zone(w));
	*ret_n = n;
	return users;
}

/* ---- waiting ---- */

void workload_wait(struct workload *w, struct workload_waiter *waiter)
{
	waiter->next = w->waiters;
	w->waiters = waiter;
}

void workload_unwait(struct workload *w, struct workload_waiter *waiter)
{
	for (struct workload_waiter **p = &w->waiters; *p; p = &(*p)->next)
		if (*p == waiter) {
			*p = waiter->next;
			return;
		}
}

static bool answered(const struct workload *w, enum workload_wait what)
{
	PB(WorkloadState) s = workload_state(w);

	switch (what) {
	case WORKLOAD_WAIT_CREATED: return s != WSTATE(CREATING);
	case WORKLOAD_WAIT_STARTED: return s != WSTATE(CREATING) && s != WSTATE(CREATED);
	case WORKLOAD_WAIT_ENDED: return workload_ended(w);
	default: return s == WSTATE(DESTROYED);
	}
}

static void answer_waiters(struct workload *w)
{
	bool failed = workload_state(w) == WSTATE(FAILED);
	struct workload_waiter *list = NULL, *next;
	struct edera_error err = EDERA_ERROR_INIT;

	for (struct workload_waiter **p = &w->waiters; *p;) {
		struct workload_waiter *x = *p;

		if (!answered(w, x->what)) {
			p = &x->next;
			continue;
		}
		*p = x->next;
		x->next = list;
		list = x;
	}
	if (failed)
		err_set(&err, w->error_code ? w->error_code : -EIO, "%s", w->pb->status->error_status ? w->pb->status->error_status->message : "the workload failed");
	else if (workload_state(w) == WSTATE(DESTROYING) || workload_state(w) == WSTATE(DESTROYED))
		err_set(&err, -ECANCELED, "the workload '%s' was destroyed", w->pb->spec->name);
	for (; list; list = next) {
		bool bad = err.code && list->what <= WORKLOAD_WAIT_STARTED;

		next = list->next;
		list->told(list, w, bad ? &err : NULL);
	}
}

void workload_set_state(struct workload *w, PB(WorkloadState) state)
{
	struct edera_error err = EDERA_ERROR_INIT;

	w->pb->status->state = state;
	log_info("workload state", "workload", w->pb->id, "name", w->pb->spec->name, "zone", w->pb->spec->zone_id, "state", workload_state_name(state), NULL);
	if (state != WSTATE(DESTROYED) && state_put_workload(w->d->state, w->pb, &err))
		log_error(err.msg, "workload", w->pb->id, NULL);
	events_workload(&w->d->events, w->pb);
	answer_waiters(w);
}

/* ---- stdin ---- */

void workload_add_writer(struct workload *w, struct workload_writer *x)
{
	x->prev = NULL;
	x->next = w->writers;
	if (x->next)
		x->next->prev = x;
	w->writers = x;
}

void workload_remove_writer(struct workload *w, struct workload_writer *x)
{
	if (x->prev)
		x->prev->next = x->next;
	else
		w->writers = x->next;
	if (x->next)
		x->next->prev = x->prev;
}

/* ---- making and unmaking the object ---- */

struct workload *workload_new(struct daemon *d, PbWorkload *pb, struct edera_error *err)
{
	struct workload *w = pb_xcalloc(1, sizeof *w);
	char path[PATH_CAP];

	w->d = d;
	w->pb = pb;
	snprintf(w->serial, sizeof w->serial, "w-%.8s-%.4s", pb->id, pb->id + 9);
	if (path_format(path, err, "%s/workload-%s.out", d->log_dir, pb->id) || !(w->output = output_new(path, err))) {
		free(w);
		return NULL;
	}
	output_on_lag(w->output, workload_lag, w);
	w->next = d->workloads;
	if (w->next)
		w->next->prev = w;
	d->workloads = w;
	return w;
}

static void free_handle(uv_handle_t *h) { free(h); }

void workload_stop_kill_timer(struct workload *w)
{
	if (w->kill_timer)
		uv_close((uv_handle_t *)w->kill_timer, free_handle);
	w->kill_timer = NULL;
}

void workload_unfollow(struct workload *w)
{
	struct agent_process *p = w->process;

	w->process = NULL;
	agent_process_free(p, false);
}

static void workload_free(struct workload *w)
{
	workload_stop_kill_timer(w);
	workload_unfollow(w);
	if (w->prev)
		w->prev->next = w->next;
	else
		w->d->workloads = w->next;
	if (w->next)
		w->next->prev = w->prev;
	output_free(w->output);
	pb_free(w->pb);
	free(w);
}

void workload_forget(struct workload *w)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char path[PATH_CAP];

	workload_set_state(w, WSTATE(DESTROYED));
	if (state_delete_workload(w->d->state, w->pb->id, &err))
		log_error(err.msg, "workload", w->pb->id, NULL);
	if (path_format(path, NULL, "%s/workload-%s.out", w->d->log_dir, w->pb->id) == 0)
		record_remove(path);
	workload_free(w);
}

void workload_fail(struct workload *w, int code, const char *message)
{
	PB(WorkloadErrorStatus) *e = w->pb->status->error_status;

	if (workload_state(w) == WSTATE(DESTROYING) || workload_state(w) == WSTATE(FAILED))
		return;
	if (!e) {
		e = pb_xcalloc(1, sizeof *e);
		protect__control__v1__workload_error_status__init(e);
		w->pb->status->error_status = e;
	}
	pb_set(&e->message, message);
	text_force_utf8(e->message);
	w->error_code = code;
	workload_unfollow(w);
	workload_stop_kill_timer(w);
	workload_set_state(w, WSTATE(FAILED));
	output_end(w->output);
}

static int check_spec(const struct daemon *d, const PbWorkloadSpec *s, struct edera_error *err)
{
	struct zone *z = zone_by_id(d, s->zone_id);
	struct workload *same;

	if (!text_valid_name(s->name))
		return err_set(err, -EINVAL, "'%.100s' cannot be a workload's name: letters, digits, '.', '_' and '-' are allowed, a letter or digit first, 253 characters at most", s->name);
	if (!z)
		return err_set(err, -ENOENT, "there is no zone '%.100s' for the workload '%s'", s->zone_id, s->name);
	if (zone_ending(z))
		return zone_not_ready(z, err);
	if (!s->image || !*s->image->digest)
		return err_set(err, -EINVAL, "the workload '%s' names no image", s->name);
	if (s->image->format != PROTECT__CONTROL__V1__OCI_IMAGE_FORMAT__OCI_IMAGE_FORMAT_SQUASHFS && s->image->format != PROTECT__CONTROL__V1__OCI_IMAGE_FORMAT__OCI_IMAGE_FORMAT_EROFS)
		return err_set(err, -EINVAL, "the workload '%s' names an image of a format that cannot be launched: squashfs and erofs can", s->name);
	if (s->n_block_devices || s->n_pci_devices || s->object_capabilities)
		return err_set(err, -EOPNOTSUPP, "the workload '%s' asks for %s, which this version does not support", s->name,
			       s->n_block_devices ? "block devices" : s->n_pci_devices ? "PCI devices" : "object capabilities");
	if (s->n_mounts > 64 || s->n_scratch_mount > 64)
		return err_set(err, -EINVAL, "the workload '%s' asks for more than 64 mounts", s->name);
	same = workload_by_name(d, s->name);
	if (same && !workload_ended(same))
		return err_set(err, -EEXIST, "a workload named '%s' exists (%s, %s): destroy it first or take another name", s->name, same->pb->id, workload_state_name(workload_state(same)));
	return 0;
}

int workload_create(struct daemon *d, const PbWorkloadSpec *spec, const PB(ResourceOrigin) *origin, struct workload **ret, struct edera_error *err)
{
	int r = check_spec(d, spec, err);
	struct workload *w;
	PbWorkload *pb;
	char id[37];

	if (r)
		return r;
	text_uuid(id);
	pb = pb_xcalloc(1, sizeof *pb);
	protect__control__v1__workload__init(pb);
	pb_set(&pb->id, id);
	pb->spec = pb_copy(spec);
	pb->origin = pb_copy(origin);
	pb->status = pb_xcalloc(1, sizeof *pb->status);
	protect__control__v1__workload_status__init(pb->status);
	pb->status->created_at = pb_now();
	pb->status->state = WSTATE(CREATING);
	r = state_put_workload(d->state, pb, err);
	w = r ? NULL : workload_new(d, pb, err);
	if (!w) {
		pb_free(pb);
		return r ? r : err->code ? err->code : -EIO;
	}
	workload_set_state(w, WSTATE(CREATING));
	if (zone_ready(zone_by_id(d, spec->zone_id)))
		workload_set_up(w);
	*ret = w;
	return 0;
}

void workload_release_all(struct daemon *d)
{
	while (d->workloads)
		workload_free(d->workloads);
}
