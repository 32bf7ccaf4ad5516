/* SPDX-License-Identifier: Apache-2.0 */
/* After a start: what the records say against what the backend runs. */
#include "zone_private.h"
#include "base/log.h"
#include "workload.h"

#include <stdlib.h>
#include <string.h>

#define STATE(name) PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_##name
#define OP(hv, op) PLUGIN_OP(hv, struct edera_hypervisor_ops, op)
#define OP_TIMEOUT_NS 60000000000ll

struct found {
	struct edera_vm_info *items;
	size_t n;
};

struct load { struct daemon *d; struct edera_error *err; };

static int load_zone(void *user, PbZone *pb, uint32_t uid)
{
	struct load *l = user;

	if (!pb->spec || !pb->status || !zone_new(l->d, pb, uid, l->err)) {
		pb_free(pb);
		return l->err->code ? l->err->code : err_set(l->err, -EPROTO, "the state database holds an incomplete zone");
	}
	return 0;
}

static int load_workload(void *user, PbWorkload *pb)
{
	struct load *l = user;

	return workload_recover(l->d, pb, l->err);
}

static int note(void *user, const struct edera_vm_info *info)
{
	struct found *f = user;
	struct edera_vm_info *items = reallocarray(f->items, f->n + 1, sizeof *items);

	if (!items)
		return -ENOMEM;
	f->items = items;
	items[f->n++] = *info;
	return 0;
}

static const struct edera_vm_info *find(const struct found *f, const char *id)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->items[i].id, id))
			return &f->items[i];
	return NULL;
}

static void end_orphans(struct daemon *d, const struct plugin_provider *hv, const struct found *f)
{
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1, .deadline_ns = (int64_t)uv_hrtime() + OP_TIMEOUT_NS };

	for (size_t i = 0; i < f->n; i++) {
		struct edera_error err = EDERA_ERROR_INIT;

		if (zone_by_id(d, f->items[i].id))
			continue;
		log_warning("ending a VM that no record knows", "vm", f->items[i].id, NULL);
		if (OP(hv, vm_destroy)(hv->inst, &call, f->items[i].id, &err) < 0)
			log_error(err.msg, "vm", f->items[i].id, NULL);
	}
}

static void take_back(struct zone *z, const struct edera_vm_info *info)
{
	switch (zone_state(z)) {
	case STATE(DESTROYING):
	case STATE(DESTROYED):
		z->pb->status->state = STATE(FAILED);
		zone_destroy(z);
		return;
	case STATE(FAILED):
		return;
	case STATE(CREATING):
		zone_fail(z, "the daemon was stopped while the zone was being made");
		return;
	default:
		break;
	}
	if (!info || info->state == EDERA_VM_STOPPED) {
		zone_fail(z, "the zone's VM ended while the daemon was not running");
		return;
	}
	z->pb->status->domid = info->domid;
	log_info("zone adopted", "zone", z->pb->id, "name", z->pb->spec->name, NULL);
	if (zone_state(z) == STATE(CREATED))
		zone_await_ready(z);
	zone_agent_open(z, -1);
}

int zone_recover(struct daemon *d, struct edera_error *err)
{
	const struct plugin_provider *hv = plugin_host_hypervisor(d->plugins);
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1, .deadline_ns = (int64_t)uv_hrtime() + OP_TIMEOUT_NS };
	struct load l = { d, err };
	struct found f = { 0 };
	int r = state_each_zone(d->state, load_zone, &l, err);

	if (!r)
		r = state_each_workload(d->state, load_workload, &l, err);
	if (!r && OP(hv, vm_list))
		r = OP(hv, vm_list)(hv->inst, &call, note, &f, err);
	if (!r) {
		end_orphans(d, hv, &f);
		for (struct zone *z = d->zones, *next; z; z = next) {
			next = z->next;
			take_back(z, find(&f, z->pb->id));
		}
	}
	free(f.items);
	return r;
}
