/* SPDX-License-Identifier: Apache-2.0 */
/* A workload's image and mounts going into its zone and out again. */
#include "base/log.h"
#include "images.h"
#include "share.h"
#include "workload_private.h"
#include "zone.h"

#include <stdlib.h>
#include <string.h>

#define ATTACH_TIMEOUT_MS 30000

/* An operation of the zone's queue for one workload. The workload may be gone when it is done, so it is looked up by id; the zone
 * cannot, for the job that ends it comes later in the same queue. */
struct disk_job {
	struct daemon *d;
	const struct plugin_provider *hv;
	char zone_id[40], id[40], serial[21], digest[EDERA_DIGEST_MAX];
	uint32_t format;
	bool attach;
	PbWorkloadSpec *spec;
	struct buf config;
	int status;
	struct edera_error err;
};

static struct share share_of(const struct disk_job *j, size_t i)
{
	return (struct share){ .hv = j->hv, .run_dir = j->d->run_dir, .zone_id = j->zone_id, .workload_id = j->id, .index = i };
}

static void attach_mounts(struct disk_job *j, const struct edera_call *call)
{
	for (size_t i = 0; !j->status && i < j->spec->n_mounts; i++) {
		struct share s = share_of(j, i);

		j->status = share_add(&s, call, j->spec->mounts[i], &j->err);
	}
}

static void detach(struct disk_job *j, const struct edera_call *call)
{
	for (size_t i = 0; i < j->spec->n_mounts; i++) {
		struct share s = share_of(j, i);
		int r = share_remove(&s, call, &j->err);

		j->status = j->status ? j->status : r;
	}
	if (PLUGIN_OP(j->hv, struct edera_hypervisor_ops, disk_detach)) {
		int r = PLUGIN_OP(j->hv, struct edera_hypervisor_ops, disk_detach)(j->hv->inst, call, j->zone_id, j->serial, &j->err);

		j->status = j->status ? j->status : r;
	}
}

static void attach(struct disk_job *j, const struct edera_call *call)
{
	struct edera_disk disk = { .serial = j->serial, .flags = EDERA_DISK_READONLY };
	char path[PATH_CAP];

	if (!PLUGIN_OP(j->hv, struct edera_hypervisor_ops, disk_attach)) {
		j->status = err_set(&j->err, -EOPNOTSUPP, "the hypervisor '%s' cannot attach disks to a running zone", j->hv->name);
		return;
	}
	j->status = images_file(j->d->plugins, call, j->digest, j->format, EDERA_IMAGE_FILE_ROOT, path, &j->err);
	if (!j->status)
		j->status = images_read(j->d->plugins, call, j->digest, j->format, EDERA_IMAGE_FILE_CONFIG, &j->config, &j->err);
	if (j->status) {
		err_wrap(&j->err, "the image %.24s... is not in the cache; pull it first", j->digest);
		return;
	}
	disk.path = path;
	j->status = PLUGIN_OP(j->hv, struct edera_hypervisor_ops, disk_attach)(j->hv->inst, call, j->zone_id, &disk, &j->err);
	if (j->status == -EEXIST)
		j->status = 0; /* an earlier daemon got this far */
	attach_mounts(j, call);
}

static void disk_work(void *user, const struct edera_call *call)
{
	struct disk_job *j = user;

	(j->attach ? attach : detach)(j, call);
}

static void disk_done(void *user, bool abandoned)
{
	struct disk_job *j = user;
	struct workload *w = workload_by_id(j->d, j->id);

	if (abandoned)
		daemon_degrade(j->d, j->hv, j->attach ? "disk_attach" : "disk_detach");
	if (!w)
		return;
	if (!j->attach) {
		if (abandoned || j->status)
			log_warning("cannot take a workload's disk out of its zone", "workload", w->pb->id, "error", j->err.msg, NULL);
		workload_forget(w);
		return;
	}
	w->attached = !abandoned && j->status == 0;
	if (abandoned || j->status)
		workload_fail(w, abandoned ? -ETIMEDOUT : j->status, abandoned ? "the hypervisor did not attach the image in time" : j->err.msg);
	else
		workload_attached(w, &j->config);
}

static void disk_release(void *user)
{
	struct disk_job *j = user;

	buf_free(&j->config);
	pb_free(j->spec);
	free(j);
}

static const struct worker_ops disk_ops = { disk_work, disk_done, disk_release };

void workload_submit_disk(struct workload *w, struct zone *z, bool in)
{
	struct disk_job *j = pb_xcalloc(1, sizeof *j);

	*j = (struct disk_job){ .d = w->d, .hv = plugin_host_hypervisor(w->d->plugins), .attach = in, .format = w->pb->spec->image->format, .err = EDERA_ERROR_INIT };
	j->spec = pb_copy(w->pb->spec);
	snprintf(j->zone_id, sizeof j->zone_id, "%s", z->pb->id);
	snprintf(j->id, sizeof j->id, "%s", w->pb->id);
	snprintf(j->serial, sizeof j->serial, "%s", w->serial);
	snprintf(j->digest, sizeof j->digest, "%s", w->pb->spec->image->digest);
	worker_submit(w->d->workers, z->queue, ATTACH_TIMEOUT_MS, &disk_ops, j);
}
