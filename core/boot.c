/* SPDX-License-Identifier: Apache-2.0 */
#include "boot.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "bootfiles.h"
#include "images.h"
#include "variants.h"

#include <string.h>
#include <unistd.h>

#define OP(p, op) PLUGIN_OP(p, struct edera_hypervisor_ops, op)

static uint64_t or64(uint64_t a, uint64_t b) { return a ? a : b; }

void boot_resources(const struct conf *conf, const PbZoneSpec *spec, uint64_t *ret_memory, uint64_t *ret_max_memory, uint32_t *ret_cpus, uint32_t *ret_max_cpus)
{
	const PB(ZoneResourcesSpec) *r = spec->initial_resources;
	uint64_t max_cpus = or64(r ? r->max_cpus : 0, 0), cpus = r ? r->target_cpus : 0;
	uint64_t memory = r ? r->target_memory : 0, max_memory = r ? r->max_memory : 0;

	if (!memory && !max_memory) {
		max_memory = (uint64_t)conf_int(conf, "zone.memory-limit-mb");
		memory = (uint64_t)conf_int(conf, "zone.target-memory-mb");
	}
	memory = or64(memory, max_memory);
	max_memory = memory > max_memory ? memory : max_memory;
	cpus = or64(cpus, or64(r ? r->min_cpus : 0, (uint64_t)conf_int(conf, "zone.target-cpus")));
	if (!max_cpus)
		max_cpus = cpus;
	if (cpus > max_cpus)
		cpus = max_cpus;
	*ret_memory = memory;
	*ret_max_memory = max_memory;
	*ret_cpus = (uint32_t)cpus;
	*ret_max_cpus = (uint32_t)max_cpus;
}

int boot_vm_dir(char ret[PATH_CAP], const char *run_dir, const char *zone_id, struct edera_error *err)
{
	return path_format(ret, err, "%s/zones/%s", run_dir, zone_id);
}

static int pull_kernel(struct boot *b, const struct edera_call *call, const char *reference)
{
	struct edera_pull pull = { .size = sizeof pull, .format = EDERA_IMAGE_DIRECTORY, .reference = reference };

	return images_pull(b->plugins, call, &pull, b->kernel_digest, &b->err);
}

static int pull_variant(struct boot *b, const struct edera_call *call, const char *name)
{
	_free_ char *reference = NULL;
	int r = variants_reference(b->plugins, call, name, &reference, &b->err);

	return r ? r : pull_kernel(b, call, reference);
}

/* Highest first: the image in the spec (a client has resolved --kernel-variant or --kernel to it), the variant of the annotation, the image of
 * the annotation, the configured default, the node's own zone kernel. */
static int choose_kernel(struct boot *b, const struct edera_call *call)
{
	PbZoneSpec *spec = b->zone->spec;
	const char *variant = pb_annotation(spec->annotations, spec->n_annotations, "dev.edera/kernel-variant");
	const char *image = pb_annotation(spec->annotations, spec->n_annotations, "dev.edera/kernel");
	const char *fallback = conf_str(b->conf, "zone.default-kernel-variant");

	b->kernel_digest[0] = 0;
	if (spec->kernel && *spec->kernel->digest) {
		if (strlen(spec->kernel->digest) >= sizeof b->kernel_digest)
			return err_set(&b->err, -EINVAL, "the zone's kernel digest is not a digest");
		strcpy(b->kernel_digest, spec->kernel->digest);
		return 0;
	}
	if (variant)
		return pull_variant(b, call, variant);
	if (image) {
		log_warning("the annotation dev.edera/kernel is deprecated, use dev.edera/kernel-variant", "zone", b->zone->id, "image", image, NULL);
		return pull_kernel(b, call, image);
	}
	return *fallback ? pull_variant(b, call, fallback) : 0;
}

static void cmdline(struct boot *b, struct buf *out)
{
	const PB(KernelOptionsSpec) *k = b->zone->spec->kernel_options;
	const char *verbose = pb_annotation(b->zone->spec->annotations, b->zone->spec->n_annotations, "dev.edera/kernel_verbose");

	buf_puts(out, "panic=-1 rdinit=/init");
	if (!(k && k->verbose) && !(verbose && !strcmp(verbose, "true")))
		buf_printf(out, " %s", conf_str(b->conf, "zone.kernel-options"));
	for (size_t i = 0; k && i < k->n_cmdline; i++)
		buf_printf(out, " %s", k->cmdline[i]);
	if (k && *k->cmdline_append)
		buf_printf(out, " %s", k->cmdline_append);
}

static int open_streams(struct boot *b, const struct plugin_provider *hv, const struct edera_call *call)
{
	int r = OP(hv, vm_channel)(hv->inst, call, b->zone->id, &b->channel_fd, &b->err);

	if (r)
		return err_wrap(&b->err, "cannot open the agent's channel");
	if ((hv->caps & EDERA_HV_CONSOLE) && (r = OP(hv, vm_console)(hv->inst, call, b->zone->id, &b->console_fd, &b->err)))
		return err_wrap(&b->err, "cannot open the zone's console");
	return 0;
}

static void undo(struct boot *b, const struct plugin_provider *hv, const char *dir)
{
	struct edera_call end = { .size = sizeof end, .cancel_fd = -1 };
	struct edera_error why = EDERA_ERROR_INIT;

	if (b->console_fd >= 0)
		close(steal_fd(&b->console_fd));
	if (b->channel_fd >= 0)
		close(steal_fd(&b->channel_fd));
	if (OP(hv, vm_destroy)(hv->inst, &end, b->zone->id, &why) < 0)
		log_error("cannot clean up after a failed launch", "zone", b->zone->id, "error", why.msg, NULL);
	if (path_remove_tree(dir, &why) < 0)
		log_error("cannot clean up after a failed launch", "zone", b->zone->id, "error", why.msg, NULL);
}

static int make_vm(struct boot *b, const struct plugin_provider *hv, const struct edera_call *call, const struct boot_files *files, const char *dir)
{
	_buf_ struct buf line = BUF_INIT;
	struct edera_disk addons = { .serial = "addons", .path = files->addons, .flags = EDERA_DISK_READONLY };
	struct edera_vm_spec spec = {
		.size = sizeof spec, .id = b->zone->id, .name = b->zone->spec->name, .kernel = files->kernel, .initrd = files->initrd,
		.uid = b->uid, .disks = &addons, .n_disks = *files->addons ? 1 : 0, .run_dir = dir,
	};
	int r;

	boot_resources(b->conf, b->zone->spec, &spec.memory_mib, &spec.max_memory_mib, &spec.vcpus, &spec.max_vcpus);
	cmdline(b, &line);
	if (line.failed)
		return err_errno(&b->err, -ENOMEM, "cannot make the kernel's command line");
	spec.cmdline = (char *)line.data;
	memcpy(b->addons, files->addons, sizeof b->addons);
	b->vm.size = sizeof b->vm;
	r = OP(hv, vm_create)(hv->inst, call, &spec, &b->vm, &b->err);
	if (!r)
		r = open_streams(b, hv, call);
	if (!r && (r = OP(hv, vm_start)(hv->inst, call, b->zone->id, &b->err)))
		err_wrap(&b->err, "cannot start the zone's VM");
	return r;
}

static int run(struct boot *b, const struct edera_call *call)
{
	const struct plugin_provider *hv = plugin_host_hypervisor(b->plugins);
	struct boot_files files;
	char dir[PATH_CAP];
	int r;

	if ((r = choose_kernel(b, call)) || (r = boot_files_find(b, call, &files)) || (r = boot_vm_dir(dir, b->run_dir, b->zone->id, &b->err)) ||
	    (r = path_mkdirs(dir, 0711, &b->err)))
		return r;
	r = make_vm(b, hv, call, &files, dir);
	if (r)
		undo(b, hv, dir);
	return r;
}

void boot_run(struct boot *b, const struct edera_call *call)
{
	b->console_fd = b->channel_fd = -1;
	b->err = (struct edera_error)EDERA_ERROR_INIT;
	b->status = run(b, call);
}
