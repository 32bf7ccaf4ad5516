/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "boot.h"
#include "share.h"
#include "workload.h"
#include "zone_private.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENOUGH_MIB 128 /* a distribution's kernel with the agent's root in memory does not come up with 64 */
#define DESTROY_TIMEOUT_MS 60000

const char *zone_state_name(PB(ZoneState) state)
{
	switch (state) {
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_CREATING: return "creating";
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_CREATED: return "created";
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_READY: return "ready";
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYING: return "destroying";
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYED: return "destroyed";
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_FAILED: return "failed";
	default: return "unknown";
	}
}

#define STATE(name) PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_##name

PB(ZoneState) zone_state(const struct zone *z) { return z->pb->status->state; }

bool zone_ready(const struct zone *z) { return zone_state(z) == STATE(READY) && z->agent; }

bool zone_ending(const struct zone *z)
{
	PB(ZoneState) s = zone_state(z);

	return s == STATE(DESTROYING) || s == STATE(DESTROYED) || s == STATE(FAILED);
}

int zone_not_ready(const struct zone *z, struct edera_error *err)
{
	const char *why = z->pb->status->error_status ? z->pb->status->error_status->message : "";

	return err_set(err, -EBUSY, "the zone '%s' is %s%s%s", z->pb->spec->name, zone_state_name(zone_state(z)), *why ? ": " : "", why);
}

struct zone *zone_by_id(const struct daemon *d, const char *id)
{
	for (struct zone *z = d->zones; z; z = z->next)
		if (!strcmp(z->pb->id, id))
			return z;
	return NULL;
}

struct zone *zone_by_name(const struct daemon *d, const char *name)
{
	struct zone *failed = NULL;

	for (struct zone *z = d->zones; z; z = z->next) {
		if (strcmp(z->pb->spec->name, name) || zone_state(z) == STATE(DESTROYED))
			continue;
		if (!zone_ending(z))
			return z;
		if (!failed || (zone_state(failed) == STATE(DESTROYING) && zone_state(z) == STATE(FAILED)))
			failed = z;
	}
	return failed;
}

static void save(struct zone *z)
{
	struct edera_error err = EDERA_ERROR_INIT;

	if (state_put_zone(z->d->state, z->pb, z->uid, &err))
		log_error(err.msg, "zone", z->pb->id, NULL);
}

void zone_changed(struct zone *z)
{
	save(z);
	events_zone(&z->d->events, z->pb);
}

void zone_set_state(struct zone *z, PB(ZoneState) state)
{
	z->pb->status->state = state;
	log_info("zone state", "zone", z->pb->id, "name", z->pb->spec->name, "state", zone_state_name(state), NULL);
	zone_changed(z);
}

static void list_add(struct zone *z)
{
	z->next = z->d->zones;
	if (z->next)
		z->next->prev = z;
	z->d->zones = z;
}

static void list_remove(struct zone *z)
{
	if (z->prev)
		z->prev->next = z->next;
	else
		z->d->zones = z->next;
	if (z->next)
		z->next->prev = z->prev;
}

static void free_handle(uv_handle_t *h) { free(h); }

void zone_stop_deadline(struct zone *z)
{
	if (!z->deadline)
		return;
	uv_close((uv_handle_t *)z->deadline, free_handle);
	z->deadline = NULL;
}

void zone_arm_deadline(struct zone *z, uint64_t ms, void (*cb)(uv_timer_t *))
{
	zone_stop_deadline(z);
	z->deadline = pb_xcalloc(1, sizeof *z->deadline);
	uv_timer_init(z->d->loop, z->deadline);
	z->deadline->data = z;
	uv_timer_start(z->deadline, cb, ms, 0);
}

/* Everything of ours that talks to the VM; the VM itself is not touched. */
static void let_go(struct zone *z)
{
	zone_stop_deadline(z);
	zone_agent_close(z);
	zone_console_close(z);
}

static void zone_free(struct zone *z)
{
	let_go(z);
	output_free(z->console);
	worker_queue_free(z->queue);
	pb_free(z->pb);
	free(z);
}

struct zone *zone_new(struct daemon *d, PbZone *pb, uint32_t uid, struct edera_error *err)
{
	struct zone *z = pb_xcalloc(1, sizeof *z);
	char path[PATH_CAP];

	z->d = d;
	z->pb = pb;
	z->uid = uid;
	z->console_fd = -1;
	z->queue = worker_queue_new(d->workers);
	if (!z->queue)
		abort();
	if (path_format(path, err, "%s/zone-%s.console", d->log_dir, pb->id) || !(z->console = output_new(path, err))) {
		worker_queue_free(z->queue);
		free(z);
		return NULL;
	}
	z->console_offset = record_stream_end(output_record(z->console), 0);
	list_add(z);
	return z;
}

/* ---- ending ---- */

struct end_job {
	struct zone *z;
	const struct plugin_provider *hv;
	char id[40], dir[PATH_CAP];
	int status;
	struct edera_error err;
	bool forget; /* destroy: the record goes too */
};

static void end_work(void *user, const struct edera_call *call)
{
	struct end_job *j = user;

	j->status = PLUGIN_OP(j->hv, struct edera_hypervisor_ops, vm_destroy)(j->hv->inst, call, j->id, &j->err);
	if (!j->status) {
		share_remove_all(j->dir);
		j->status = path_remove_tree(j->dir, &j->err);
	}
}

static void forget(struct zone *z)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char path[PATH_CAP];

	workload_zone_gone(z);
	z->pb->status->state = STATE(DESTROYED);
	events_zone(&z->d->events, z->pb);
	log_info("zone state", "zone", z->pb->id, "name", z->pb->spec->name, "state", "destroyed", NULL);
	if (state_delete_zone(z->d->state, z->pb->id, &err))
		log_error(err.msg, "zone", z->pb->id, NULL);
	if (path_format(path, NULL, "%s/zone-%s.console", z->d->log_dir, z->pb->id) == 0)
		record_remove(path);
	z->gone = true;
	list_remove(z);
	zone_free(z);
}

static void end_done(void *user, bool abandoned)
{
	struct end_job *j = user;
	struct zone *z = j->z;

	if (abandoned)
		daemon_degrade(z->d, j->hv, "vm_destroy");
	if (!abandoned && j->status == 0) {
		if (j->forget)
			forget(z);
		return;
	}
	if (j->forget) {
		z->pb->status->state = STATE(FAILED);
		zone_fail(z, "the zone could not be destroyed: %s", abandoned ? "the hypervisor did not answer in time" : j->err.msg);
	} else {
		log_error("cannot end a failed zone's VM", "zone", z->pb->id, "error", abandoned ? "the hypervisor did not answer in time" : j->err.msg, NULL);
	}
}

static void free_job(void *user) { free(user); }

static const struct worker_ops end_ops = { end_work, end_done, free_job };

static void submit_end(struct zone *z, bool and_forget)
{
	struct end_job *j = pb_xcalloc(1, sizeof *j);

	j->z = z;
	j->hv = plugin_host_hypervisor(z->d->plugins);
	j->forget = and_forget;
	j->err = (struct edera_error)EDERA_ERROR_INIT;
	snprintf(j->id, sizeof j->id, "%s", z->pb->id);
	boot_vm_dir(j->dir, z->d->run_dir, z->pb->id, NULL);
	worker_submit(z->d->workers, z->queue, DESTROY_TIMEOUT_MS, &end_ops, j);
}

void zone_set_error(struct zone *z, const char *message)
{
	PB(ZoneErrorStatus) *e = z->pb->status->error_status;

	if (!e) {
		e = pb_xcalloc(1, sizeof *e);
		protect__control__v1__zone_error_status__init(e);
		z->pb->status->error_status = e;
	}
	pb_set(&e->message, message);
	text_force_utf8(e->message);
}

/* What to do if that may be why it does not come up. */
static const char *memory_hint(const struct zone *z)
{
	const PB(ZoneResourceStatus) *st = z->pb->status->resource_status;
	uint64_t mib = st && st->active_resources ? st->active_resources->target_memory : 0;

	return zone_state(z) == STATE(CREATED) && mib && mib < ENOUGH_MIB ? "; with so little memory a kernel may not come up, give it 128 MiB or more (--target-memory)" : "";
}

void zone_fail(struct zone *z, const char *fmt, ...)
{
	bool was_failed = zone_state(z) == STATE(FAILED);
	char message[600];
	va_list ap;
	int n;

	if (zone_state(z) == STATE(DESTROYING) || z->gone)
		return;
	va_start(ap, fmt);
	n = vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	if (n > 0 && (size_t)n < sizeof message)
		snprintf(message + n, sizeof message - (size_t)n, "%s", memory_hint(z));
	zone_set_error(z, message);
	log_error("zone failed", "zone", z->pb->id, "name", z->pb->spec->name, "error", message, NULL);
	let_go(z);
	output_end(z->console);
	zone_set_state(z, STATE(FAILED));
	workload_zone_failed(z, message);
	if (!was_failed)
		submit_end(z, false);
}

void zone_destroy(struct zone *z)
{
	if (zone_state(z) == STATE(DESTROYING) || z->gone)
		return;
	zone_set_state(z, STATE(DESTROYING));
	worker_cancel(z->boot);
	let_go(z);
	output_end(z->console);
	workload_zone_ending(z);
	submit_end(z, true);
}

void zone_vm_event(struct daemon *d, const char *vm_id, enum edera_vm_event event, const char *detail)
{
	struct zone *z = zone_by_id(d, vm_id);

	/* While it is being made, the job that makes it reports what went wrong. */
	if (!z || zone_ending(z) || z->boot || event == EDERA_VM_EVENT_STARTED)
		return;
	zone_fail(z, "the zone's VM %s%s%s", event == EDERA_VM_EVENT_CRASHED ? "crashed" : "stopped", detail && *detail ? ": " : "", detail ? detail : "");
}

void zone_release_all(struct daemon *d)
{
	while (d->zones) {
		struct zone *z = d->zones;

		list_remove(z);
		zone_free(z);
	}
}
