/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin host: finds, checks, loads, orders and starts plugins, and gives them the services of struct edera_host.
 *
 * Order of use, all on the loop thread and before any worker runs:
 *   plugin_host_new → plugin_host_load → (conf_load with plugin_host_conf_plugins) → plugin_host_start → ... → plugin_host_stop
 * What is looked up (plugin_host_hypervisor and so on) is fixed once plugin_host_start returned and may be read by workers. */
#ifndef PLUGIN_PLUGIN_HOST_H
#define PLUGIN_PLUGIN_HOST_H

#include <stdbool.h>
#include <uv.h>
#include <edera/hypervisor.h>
#include <edera/image_store.h>
#include <edera/variant_source.h>
#include "conf/conf.h"
#include "plugin/inspect.h" /* plugin_kind_name */

struct plugin_host;

enum plugin_state {
	PLUGIN_CANDIDATE = 0, /* inspected, not yet started */
	PLUGIN_LOADED = 1,    /* initialised and running */
	PLUGIN_SKIPPED = 2,   /* its probe said that this machine cannot use it */
	PLUGIN_ERROR = 3,     /* refused or failed */
	PLUGIN_DISABLED = 4,  /* by configuration, or another one was selected for its job */
	PLUGIN_DEGRADED = 5,  /* runs, but a call of it did not come back in time */
};

const char *plugin_state_name(enum plugin_state); /* "loaded", "skipped", ... */

/* What `protect plugin list` and `info` show. Strings are "" where not known, and live until the host is freed. */
struct plugin_info {
	const char *name; /* the descriptor's; the file's without ".so" where the descriptor could not be read */
	const char *path;
	const char *version, *summary, *license;
	uint16_t abi_major, abi_minor; /* 0.0: not read */
	enum plugin_state state;
	const char *reason; /* why it is in this state: "" for an ordinary loaded one */
	bool replaced;      /* the file on disk is no longer the one that was loaded */
	bool selected;      /* the configuration uses something it provides */
	const struct edera_plugin *descriptor; /* NULL unless it passed the checks */
	const struct edera_conf *conf;         /* its section, NULL unless it was probed */
};

/* One thing that a running plugin provides. */
struct plugin_provider {
	const char *plugin; /* plugin's name, for messages and plugin_host_degrade */
	const char *name;   /* what the configuration calls it */
	uint32_t kind;
	uint64_t caps;
	const void *ops; /* kind's table; may be shorter than ours: use PLUGIN_OP */
	void *inst;
};

/* An op, or NULL where the plugin's table is too short to have it. Type: PLUGIN_OP(p, struct edera_hypervisor_ops, vm_list) */
#define PLUGIN_OP(provider, type, op) \
	(((const type *)(provider)->ops)->size >= offsetof(type, op) + sizeof(((const type *)0)->op) ? ((const type *)(provider)->ops)->op : NULL)

struct plugin_host_options {
	const char *data_dir, *run_dir, *cache_dir; /* absolute, no trailing slash; copied */
	/* A VM event, on the loop thread. plugin and vm_id live for the call. */
	void (*vm_event)(void *user, const char *plugin, const char *vm_id, enum edera_vm_event, const char *detail);
	void *user;
};

int plugin_host_new(uv_loop_t *, const struct plugin_host_options *, struct plugin_host **ret, struct edera_error *);
/* Inspects every *.so of [plugins] directory: file checks, dlopen, descriptor checks. Fails only when the directory itself
 * cannot be trusted or read; a bad plugin is an entry of the list. `conf`: as conf_load_plugins gives it. */
int plugin_host_load(struct plugin_host *, const struct conf *, struct edera_error *);
/* Names and keys of what was inspected, for conf_load. */
const struct conf_plugin *plugin_host_conf_plugins(const struct plugin_host *, size_t *ret_n);
/* Resolves, probes, initialises and starts, in order of dependency; selects by [plugins]. Fails when what the configuration
 * names is absent or unusable, saying why. Holds a reference to conf. */
int plugin_host_start(struct plugin_host *, struct conf *, struct edera_error *);
/* The new configuration for conf_each and oci_run; plugins whose section changed get it through their reload. For each that
 * has none, or fails, a sentence is appended to `notes` (newline after each). */
void plugin_host_reload(struct plugin_host *, struct conf *, struct buf *notes);
/* The configuration of now, as a reference to be given back; NULL before there is one. Any thread. */
struct conf *plugin_host_conf(const struct plugin_host *);
/* stop and fini in reverse order, after the last worker ended; then the loop handles are closed (run the loop once more). */
void plugin_host_stop(struct plugin_host *);
void plugin_host_free(struct plugin_host *);

/* NULL before plugin_host_start succeeded. */
const struct plugin_provider *plugin_host_hypervisor(const struct plugin_host *);
const struct plugin_provider *plugin_host_image_store(const struct plugin_host *);
/* Variant sources in order of precedence; NULL past the end. */
const struct plugin_provider *plugin_host_variant_source(const struct plugin_host *, size_t i);

size_t plugin_host_count(const struct plugin_host *);
void plugin_host_info(struct plugin_host *, size_t i, struct plugin_info *ret);
/* A call of the plugin overran its deadline. Any thread. `reason` is copied. */
void plugin_host_degrade(struct plugin_host *, const char *plugin, const char *reason);

#endif
