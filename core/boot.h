/* SPDX-License-Identifier: Apache-2.0 */
/* From a zone's spec to a running VM, in reading order, on a worker: which kernel, which files, create, open console and channel, start. */
#ifndef CORE_BOOT_H
#define CORE_BOOT_H

#include <edera/image_store.h>
#include <edera/hypervisor.h>
#include "base/path.h"
#include "conf/conf.h"
#include "pb.h"
#include "plugin/plugin_host.h"

struct boot {
	/* in; the strings and the plugin host outlive the boot, conf and zone are the boot's own */
	const struct plugin_host *plugins;
	const char *data_dir, *run_dir, *cache_dir;
	struct conf *conf;
	PbZone *zone;
	uint32_t uid;
	/* out */
	int status;
	struct edera_error err;
	char kernel_digest[EDERA_DIGEST_MAX]; /* "" for the node's own zone kernel */
	char addons[PATH_CAP]; /* disk image with the kernel's modules; "": none */
	struct edera_vm_info vm;
	int console_fd, channel_fd; /* -1: none; the taker sets them to -1 */
};

/* Resources a zone gets where its spec is silent (MiB, counts). */
void boot_resources(const struct conf *, const PbZoneSpec *, uint64_t *ret_memory, uint64_t *ret_max_memory, uint32_t *ret_cpus, uint32_t *ret_max_cpus);
/* Blocking. On failure nothing of the VM is left. */
void boot_run(struct boot *, const struct edera_call *);
/* The VM's private directory (run_dir/zones/ID). */
int boot_vm_dir(char ret[PATH_CAP], const char *run_dir, const char *zone_id, struct edera_error *);

#endif
