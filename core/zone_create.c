/* SPDX-License-Identifier: Apache-2.0 */
/* From a request to a zone that boots: what may be asked for, the record, the job that makes the VM. */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "boot.h"
#include "zone_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UID_FIRST 1900000000u /* above every range distributions and subuid hand out */
#define UID_COUNT 1000000u
#define MEMORY_MIN_MIB 64u
#define MEMORY_MAX_MIB (1u << 24)

#define STATE(name) PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_##name

struct boot_job {
	struct zone *z;
	struct boot boot;
};

static void boot_work(void *user, const struct edera_call *call)
{
	struct boot_job *j = user;

	boot_run(&j->boot, call);
}

static void not_ready_in_time(uv_timer_t *t)
{
	struct zone *z = t->data;

	zone_fail(z, "its kernel or agent did not answer within %lld seconds; see `protect zone logs %s`",
		  (long long)conf_int(z->d->conf, "zone.launch-timeout-seconds"), z->pb->spec->name);
}

void zone_await_ready(struct zone *z)
{
	zone_arm_deadline(z, (uint64_t)conf_int(z->d->conf, "zone.launch-timeout-seconds") * 1000, not_ready_in_time);
}

static void record_resources(struct zone *z, const struct conf *conf)
{
	PB(ZoneStatus) *st = z->pb->status;
	PB(ZoneResourcesSpec) *r = pb_xcalloc(1, sizeof *r);

	protect__control__v1__zone_resources_spec__init(r);
	boot_resources(conf, z->pb->spec, &r->target_memory, &r->max_memory, &r->target_cpus, &r->max_cpus);
	r->adjustment_policy = PROTECT__CONTROL__V1__ZONE_RESOURCE_ADJUSTMENT_POLICY__ZONE_RESOURCE_ADJUSTMENT_POLICY_STATIC;
	if (!st->resource_status) {
		st->resource_status = pb_xcalloc(1, sizeof *st->resource_status);
		protect__control__v1__zone_resource_status__init(st->resource_status);
	}
	pb_free(st->resource_status->active_resources);
	st->resource_status->active_resources = r;
}

static void record_kernel(struct zone *z, const char *digest)
{
	PbZoneSpec *spec = z->pb->spec;

	if (!*digest)
		return;
	if (!spec->kernel) {
		spec->kernel = pb_xcalloc(1, sizeof *spec->kernel);
		protect__control__v1__oci_image_spec__init(spec->kernel);
	}
	pb_set(&spec->kernel->digest, digest);
	spec->kernel->format = PROTECT__CONTROL__V1__OCI_IMAGE_FORMAT__OCI_IMAGE_FORMAT_DIRECTORY;
}

static void record_addons(struct zone *z, const char *path)
{
	PB(ZoneDeviceStatus) *st;
	PB(ZoneDiskStatus) *disk;

	if (!*path || z->pb->status->device_status)
		return;
	st = pb_xcalloc(1, sizeof *st);
	protect__control__v1__zone_device_status__init(st);
	disk = pb_xcalloc(1, sizeof *disk);
	protect__control__v1__zone_disk_status__init(disk);
	pb_set(&disk->host_image_file, path);
	pb_set(&disk->filesystem_type, "squashfs");
	disk->purpose = PROTECT__CONTROL__V1__ZONE_DISK_STATUS_DISK_PURPOSE__ZONE_DISK_STATUS_DISK_PURPOSE_ADDONS;
	st->disks = pb_xcalloc(1, sizeof *st->disks);
	st->disks[st->n_disks++] = disk;
	z->pb->status->device_status = st;
}

bool zone_has_addons(const struct zone *z)
{
	const PB(ZoneDeviceStatus) *st = z->pb->status->device_status;

	for (size_t i = 0; st && i < st->n_disks; i++)
		if (st->disks[i]->purpose == PROTECT__CONTROL__V1__ZONE_DISK_STATUS_DISK_PURPOSE__ZONE_DISK_STATUS_DISK_PURPOSE_ADDONS)
			return true;
	return false;
}

static void booted(struct zone *z, struct boot *b)
{
	int channel = steal_fd(&b->channel_fd);

	z->pb->status->domid = b->vm.domid;
	record_kernel(z, b->kernel_digest);
	record_resources(z, b->conf);
	record_addons(z, b->addons);
	zone_await_ready(z);
	zone_set_state(z, STATE(CREATED));
	if (b->console_fd >= 0)
		zone_console_open(z, steal_fd(&b->console_fd));
	zone_agent_open(z, channel);
}

static void boot_done(void *user, bool abandoned)
{
	struct boot_job *j = user;
	struct zone *z = j->z;

	z->boot = NULL;
	if (abandoned) {
		daemon_degrade(z->d, plugin_host_hypervisor(z->d->plugins), "vm_create");
		zone_fail(z, "the hypervisor did not answer in time; what it made of the zone is not known");
	} else if (zone_ending(z)) {
		return; /* the job that ends it is next in the queue */
	} else if (j->boot.status) {
		if (j->boot.status == -ENOMEM) {
			zone_set_error(z, "");
			z->pb->status->error_status->reason = PROTECT__CONTROL__V1__ZONE_ERROR_REASON__ZONE_ERROR_REASON_INSUFFICIENT_MEMORY;
		}
		zone_fail(z, "%s", j->boot.err.msg);
	} else {
		booted(z, &j->boot);
	}
}

static void boot_release(void *user)
{
	struct boot_job *j = user;

	if (j->boot.console_fd >= 0)
		close(j->boot.console_fd);
	if (j->boot.channel_fd >= 0)
		close(j->boot.channel_fd);
	conf_unref(j->boot.conf);
	pb_free(j->boot.zone);
	free(j);
}

static const struct worker_ops boot_ops = { boot_work, boot_done, boot_release };

static void submit_boot(struct zone *z)
{
	struct boot_job *j = pb_xcalloc(1, sizeof *j);
	struct daemon *d = z->d;

	j->z = z;
	j->boot = (struct boot){
		.plugins = d->plugins, .data_dir = d->data_dir, .run_dir = d->run_dir, .cache_dir = d->cache_dir, .conf = conf_ref(d->conf),
		.zone = pb_copy(z->pb), .uid = z->uid, .console_fd = -1, .channel_fd = -1,
	};
	/* A variant may have to be pulled first. */
	z->boot = worker_submit(d->workers, z->queue, (uint64_t)conf_int(d->conf, "oci.pull-timeout-seconds") * 1000, &boot_ops, j);
}

static uint32_t free_uid(const struct daemon *d)
{
	for (uint32_t uid = UID_FIRST; uid < UID_FIRST + UID_COUNT; uid++) {
		const struct zone *z = d->zones;

		while (z && z->uid != uid)
			z = z->next;
		if (!z)
			return uid;
	}
	return 0;
}

/* One line of printable text: it goes into a kernel's command line. */
static bool printable(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
			return false;
	return true;
}

static int check_memory(const char *name, uint64_t mib, struct edera_error *err)
{
	if (!mib || (mib >= MEMORY_MIN_MIB && mib <= MEMORY_MAX_MIB))
		return 0;
	return err_set(err, -EINVAL, "the zone '%s' asks for %llu MiB of memory, but from %u MiB to %u MiB (16 TiB) are possible", name, (unsigned long long)mib, MEMORY_MIN_MIB, MEMORY_MAX_MIB);
}

static int check_spec(const PbZoneSpec *s, struct edera_error *err)
{
	const PB(ZoneResourcesSpec) *r = s->initial_resources;
	const PB(KernelOptionsSpec) *k = s->kernel_options;

	if (!text_valid_name(s->name))
		return err_set(err, -EINVAL, "'%.100s' cannot be a zone's name: letters, digits, '.', '_' and '-' are allowed, a letter or digit first, 253 characters at most", s->name);
	if (s->initrd || s->n_addons || s->vm_image || s->scratch_disk || s->n_devices || *s->fork_parent_zone_id)
		return err_set(err, -EOPNOTSUPP, "the zone '%s' asks for %s, which this version does not support", s->name,
			       s->initrd ? "an initrd image" : s->n_addons ? "addon images" : s->vm_image ? "a VM image" : s->scratch_disk ? "a scratch disk" : s->n_devices ? "devices" : "a fork of a zone");
	if (s->network_options && s->network_options->backend > PROTECT__CONTROL__V1__ZONE_NETWORK_BACKEND__ZONE_NETWORK_BACKEND_NONE)
		return err_set(err, -EOPNOTSUPP, "the zone '%s' asks for a network backend that this version does not support; a zone has loopback only", s->name);
	if (r && r->max_memory && r->target_memory > r->max_memory)
		return err_set(err, -EINVAL, "the zone '%s' asks for %llu MiB and for at most %llu MiB of memory", s->name, (unsigned long long)r->target_memory, (unsigned long long)r->max_memory);
	if (r && r->max_cpus && r->target_cpus > r->max_cpus)
		return err_set(err, -EINVAL, "the zone '%s' asks for %u and for at most %u vCPUs", s->name, r->target_cpus, r->max_cpus);
	if (r && (check_memory(s->name, r->target_memory, err) || check_memory(s->name, r->max_memory, err)))
		return -EINVAL;
	if (r && (r->max_cpus > 512 || r->target_cpus > 512))
		return err_set(err, -EINVAL, "the zone '%s' asks for more than 512 vCPUs", s->name);
	for (size_t i = 0; k && i <= k->n_cmdline; i++) {
		const char *word = i < k->n_cmdline ? k->cmdline[i] : k->cmdline_append;

		if (!printable(word) || strlen(word) > 1024)
			return err_set(err, -EINVAL, "the zone '%s' has kernel options that are not one line of printable text of at most 1024 characters", s->name);
	}
	return 0;
}

int zone_create(struct daemon *d, const PbZoneSpec *spec, const PB(ResourceOrigin) *origin, struct zone **ret, struct edera_error *err)
{
	int r = check_spec(spec, err);
	struct zone *z;
	uint32_t uid;
	char id[37];
	PbZone *pb;

	if (r)
		return r;
	z = zone_by_name(d, spec->name);
	if (z && !zone_ending(z))
		return err_set(err, -EEXIST, "a zone named '%s' exists (%s, %s): destroy it first or take another name", spec->name, z->pb->id, zone_state_name(zone_state(z)));
	uid = free_uid(d);
	if (!uid)
		return err_set(err, -EUSERS, "no user id is left for another zone");
	pb = pb_xcalloc(1, sizeof *pb);
	protect__control__v1__zone__init(pb);
	pb->spec = pb_copy(spec);
	pb->origin = pb_copy(origin);
	pb->status = pb_xcalloc(1, sizeof *pb->status);
	protect__control__v1__zone_status__init(pb->status);
	pb->status->created_at = pb_now();
	pb_set(&pb->status->host, d->host_uuid);
	text_uuid(id);
	pb_set(&pb->id, id);
	pb->status->state = STATE(CREATING);
	r = state_put_zone(d->state, pb, uid, err);
	z = r ? NULL : zone_new(d, pb, uid, err);
	if (!z) {
		if (!r)
			state_delete_zone(d->state, id, NULL);
		pb_free(pb);
		return r ? r : err->code ? err->code : -EIO;
	}
	log_info("zone state", "zone", id, "name", spec->name, "state", "creating", NULL);
	events_zone(&d->events, pb);
	submit_boot(z);
	*ret = z;
	return 0;
}
