/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "cli/alloc.h"
#include "base/cleanup.h"
#include "cli/image/fetch.h"
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/wait.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef Protect__Control__V1__ZoneSpec Spec;

struct args {
	const char *name, *variant, *kernel, *initrd, *cmdline_append, *policy, *network, *backend;
	bool wait, verbose;
	struct fetch_args fetch;
	uint32_t min_cpus, max_cpus, target_cpus;
	uint64_t min_memory, max_memory, target_memory, scratch;
	struct strings annotations, devices;
};

static int enum_value(const ProtobufCEnumDescriptor *d, const char *name)
{
	for (unsigned i = 0; i < d->n_values; i++) {
		struct buf word _buf_ = BUF_INIT;

		format_enum_word(&word, d, d->values[i].value);
		if (!strcmp((const char *)word.data, name))
			return d->values[i].value;
	}
	return 0;
}

/* What was not asked for stays unset: the daemon has configured defaults. */
static void set_resources(Spec *spec, const struct args *a)
{
	Protect__Control__V1__ZoneResourcesSpec *r;

	if (!a->min_cpus && !a->max_cpus && !a->target_cpus && !a->min_memory && !a->max_memory && !a->target_memory && !a->policy)
		return;
	r = spec->initial_resources = message_new(&protect__control__v1__zone_resources_spec__descriptor);
	r->min_cpus = a->min_cpus;
	r->max_cpus = a->max_cpus;
	r->target_cpus = a->target_cpus;
	r->min_memory = a->min_memory;
	r->max_memory = a->max_memory;
	r->target_memory = a->target_memory;
	if (a->policy)
		r->adjustment_policy = (Protect__Control__V1__ZoneResourceAdjustmentPolicy)enum_value(&protect__control__v1__zone_resource_adjustment_policy__descriptor, a->policy);
}

static void set_kernel_options(Spec *spec, const struct args *a)
{
	Protect__Control__V1__KernelOptionsSpec *k;

	if (!a->verbose && !a->cmdline_append)
		return;
	k = spec->kernel_options = message_new(&protect__control__v1__kernel_options_spec__descriptor);
	k->verbose = a->verbose;
	message_set(&k->cmdline_append, a->cmdline_append);
}

static void set_backends(Spec *spec, const struct args *a)
{
	if (a->network) {
		spec->network_options = message_new(&protect__control__v1__zone_network_options_spec__descriptor);
		spec->network_options->backend = (Protect__Control__V1__ZoneNetworkBackend)enum_value(&protect__control__v1__zone_network_backend__descriptor, a->network);
	}
	if (a->backend) {
		const char *word = strcmp(a->backend, "auto") ? a->backend : "automatic";

		spec->virtualization_options = message_new(&protect__control__v1__zone_virtualization_options_spec__descriptor);
		spec->virtualization_options->backend = (Protect__Control__V1__ZoneVirtualizationBackend)enum_value(&protect__control__v1__zone_virtualization_backend__descriptor, word);
	}
}

static void set_scratch_disk(Spec *spec, uint64_t size)
{
	if (!size)
		return;
	spec->scratch_disk = message_new(&protect__control__v1__zone_scratch_disk_spec__descriptor);
	spec->scratch_disk->backend_case = PROTECT__CONTROL__V1__ZONE_SCRATCH_DISK_SPEC__BACKEND_IMAGE;
	spec->scratch_disk->image = message_new(&protect__control__v1__zone_scratch_disk_spec_image__descriptor);
	spec->scratch_disk->image->size = size;
}

static int fill(Spec *spec, const struct args *a)
{
	message_set(&spec->name, a->name);
	set_resources(spec, a);
	set_kernel_options(spec, a);
	set_backends(spec, a);
	set_scratch_disk(spec, a->scratch);
	for (size_t i = 0; i < a->devices.n; i++) {
		Protect__Control__V1__DeviceReferenceSpec *d = message_add(&spec->devices, &spec->n_devices, &protect__control__v1__device_reference_spec__descriptor);

		message_set(&d->name, a->devices.v[i]);
	}
	return message_add_annotations(&spec->annotations, &spec->n_annotations, &a->annotations);
}

static void warn_deprecated(const struct args *a, const Spec *spec)
{
	if (a->kernel)
		cli_warn("--kernel is deprecated, use --kernel-variant with a name from [zone.kernel-variants]%s", a->variant ? "; --kernel-variant is given too and wins" : "");
	for (size_t i = 0; i < spec->n_annotations; i++)
		if (!strcmp(spec->annotations[i]->key, "dev.edera/kernel"))
			cli_warn("the annotation dev.edera/kernel is deprecated, use dev.edera/kernel-variant");
}

/* The daemon is on this host: its socket is a file. */
static void warn_memory(const struct args *a)
{
	uint64_t mib = a->target_memory ? a->target_memory : a->max_memory, host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;

	if (mib > host)
		cli_warn("the zone is to have %" PRIu64 " MiB of memory, more than the %" PRIu64 " MiB of this host: it may be ended for want of it", mib, host);
}

static int fetch(struct cli *cli, const struct args *a, const char *image, const char *variant, Protect__Control__V1__OciImageSpec **ret, struct edera_error *err)
{
	struct fetch f = {
		.image = image, .variant = variant, .format = PROTECT__CONTROL__V1__OCI_IMAGE_FORMAT__OCI_IMAGE_FORMAT_DIRECTORY,
		.overwrite = a->fetch.overwrite, .update = a->fetch.update, .progress = progress_auto(PROGRESS_NONE),
	};
	Protect__Control__V1__PullImageReply *reply _message_ = NULL;
	int r = image_fetch(cli, &f, &reply, err);

	if (!r)
		*ret = steal_ptr(reply->spec);
	return r;
}

static int fetch_images(struct cli *cli, const struct args *a, Spec *spec, struct edera_error *err)
{
	int r = 0;

	if (a->variant || a->kernel)
		r = fetch(cli, a, a->variant ? NULL : a->kernel, a->variant, &spec->kernel, err);
	if (!r && a->initrd)
		r = fetch(cli, a, a->initrd, NULL, &spec->initrd, err);
	return r;
}

static bool is_settled(const Protect__Control__V1__Zone *z)
{
	switch (z ? zone_state(z) : PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYED) {
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_READY:
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_FAILED:
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYING:
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYED:
		return true;
	default:
		return false;
	}
}

static int wait_ready(struct waiter *w, const char *name, const char *id, struct edera_error *err)
{
	struct progress *progress = progress_new(progress_auto(PROGRESS_NONE), name);
	Protect__Control__V1__Zone *zone _message_ = NULL;
	int r = wait_zone(w, id, is_settled, progress, &zone, err);

	progress_free(progress);
	if (r)
		return r;
	if (!zone || zone_state(zone) == PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYING || zone_state(zone) == PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYED)
		return err_set(err, -ECANCELED, "the zone '%s' (%s) was destroyed before it was ready", name, id);
	if (zone_state(zone) == PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_FAILED)
		return err_set(err, -EIO, "the zone '%s' (%s) failed: %s", name, id, *zone_failure(zone) ? zone_failure(zone) : "the daemon gives no reason");
	return 0;
}

/* Destroys, and sees it gone. */
static int undo(struct cli *cli, const char *id)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct waiter *w;
	int r;

	interrupts_done(cli);
	w = wait_open(cli, &err);
	r = zone_destroy(cli, w, id, &err);
	wait_close(w);
	if (r && r != -ENOENT)
		cli_warn("interrupted, but the zone %s could not be destroyed: %s", id, err.msg);
	else
		cli_warn("interrupted: the zone was destroyed");
	return CLI_INTERRUPTED;
}

static int create(struct cli *cli, const struct args *a, const Protect__Control__V1__CreateZoneRequest *request, struct edera_error *err)
{
	Protect__Control__V1__CreateZoneReply *reply _message_ = NULL;
	struct waiter *w = NULL;
	int r;

	if (a->wait) {
		w = wait_open(cli, err);
		if (!w)
			return -EIO;
	}
	r = cli_call(cli, CONTROL, "CreateZone", request, &reply, err);
	if (!r && a->wait && !cli->interrupted)
		r = wait_ready(w, a->name, reply->zone_id, err);
	if (reply && cli->interrupted) {
		r = undo(cli, reply->zone_id);
	} else if (cli->interrupted) {
		cli_warn("interrupted: %s", err->msg);
		r = CLI_INTERRUPTED;
	} else if (!r) {
		cli_puts(reply->zone_id);
	}
	wait_close(w);
	return r;
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__CreateZoneRequest *request _message_ = message_new(&protect__control__v1__create_zone_request__descriptor);
	int r;

	request->spec = message_new(&protect__control__v1__zone_spec__descriptor);
	r = fill(request->spec, a);
	if (r)
		return r;
	warn_deprecated(a, request->spec);
	warn_memory(a);
	r = interrupts_catch(cli, err);
	if (!r)
		r = fetch_images(cli, a, request->spec, err);
	if (cli->interrupted)
		return CLI_INTERRUPTED;
	return r ? r : create(cli, a, request, err);
}

static const char *const policies[] = { "static", "dynamic", NULL };
static const char *const networks[] = { "default", "none", "external", "passthrough", NULL };
static const char *const backends[] = { "auto", "kvm", "pv", "pvh", NULL };

#define CONFIGURED "[zone] of the daemon's configuration"

static const struct opt options[] = {
	{ "name", 'n', OPT_STRING, AT(struct args, name), "NAME", "what to call it; no other living zone may have the name", .required = true },
	{ "wait", 'W', OPT_FLAG, AT(struct args, wait), NULL, "return when it is ready, and fail if it does not become so" },
	{ "kernel-variant", 0, OPT_STRING, AT(struct args, variant), "VARIANT", "the kernel, by a name that 'image list-kernel-variants' lists", .names = NAMES_VARIANT },
	{ "kernel", 'k', OPT_STRING, AT(struct args, kernel), "IMAGE", "the kernel, by an image; deprecated, use --kernel-variant, which wins if both are given" },
	{ "initrd", 'I', OPT_STRING, AT(struct args, initrd), "IMAGE", "an image with the initrd, in place of the host's" },
	{ "kernel-verbose", 0, OPT_FLAG, AT(struct args, verbose), NULL, "let the kernel tell what it does in the zone's log" },
	{ "kernel-cmdline-append", 0, OPT_STRING, AT(struct args, cmdline_append), "TEXT", "more words for the kernel's command line" },
	{ "max-cpus", 'C', OPT_U32, AT(struct args, max_cpus), "N", "virtual CPUs it may ever have", .def = CONFIGURED },
	{ "target-cpus", 'c', OPT_U32, AT(struct args, target_cpus), "N", "virtual CPUs it starts with", .def = CONFIGURED },
	{ "min-cpus", 0, OPT_U32, AT(struct args, min_cpus), "N", "virtual CPUs it always keeps" },
	{ "max-memory", 'M', OPT_U64, AT(struct args, max_memory), "MIB", "memory it may ever have, in MiB", .def = CONFIGURED },
	{ "target-memory", 'm', OPT_U64, AT(struct args, target_memory), "MIB", "memory it starts with, in MiB", .def = CONFIGURED },
	{ "min-memory", 0, OPT_U64, AT(struct args, min_memory), "MIB", "memory it always keeps, in MiB" },
	{ "resource-adjustment-policy", 'p', OPT_STRING, AT(struct args, policy), "POLICY", "whether memory follows use between minimum and maximum", .choices = policies },
	{ "annotation", 'A', OPT_LIST, AT(struct args, annotations), "KEY=VALUE", "a note on the zone; dev.edera/kernel-variant chooses a kernel like --kernel-variant" },
	{ "device", 'D', OPT_LIST, AT(struct args, devices), "NAME", "a device of the host, by its name in the daemon's configuration" },
	{ "create-scratch-disk", 0, OPT_U64, AT(struct args, scratch), "MIB", "a disk of that size for what workloads write, gone with the zone" },
	{ "network-backend", 0, OPT_STRING, AT(struct args, network), "BACKEND", "how it is connected", .choices = networks },
	{ "virt-backend", 'V', OPT_STRING, AT(struct args, backend), "BACKEND", "how it is virtualized", .choices = backends },
	FETCH_OPTIONS(struct args),
};

static const struct example examples[] = {
	{ "protect zone launch --name web --wait", NULL },
	{ "protect zone launch --name zone-gpu --kernel-variant nvidia", "with another kernel" },
	{ "protect zone launch -n test-zone --min-cpus 1 -C 2 -c 2 -m 2048 --wait", NULL },
	{ 0 },
};

const struct command verb_zone_launch = {
	.name = "launch", .summary = "Launch a zone and print its id",
	.about = "The kernel is, in this order: --kernel-variant, the annotation dev.edera/kernel-variant, --kernel, the annotation dev.edera/kernel, the default "
		 "variant of the daemon's configuration, the zone kernel in the daemon's data directory.\n\n"
		 "An interrupt (Ctrl+C) while the zone is being launched destroys it again; the exit status is 130 then.",
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
