/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin host is made of; for the files of this folder only. */
#ifndef PLUGIN_HOST_IMPL_H
#define PLUGIN_HOST_IMPL_H

#include <pthread.h>
#include <sys/stat.h>
#include "plugin/inspect.h"
#include "plugin/plugin_host.h"
#include "plugin/watch.h"

#define MAX_SOURCES 16

struct plugin {
	struct plugin_host *host;
	char *name, *path;
	struct stat st; /* of the file as loaded */
	bool inspected; /* the descriptor passed its checks */
	struct edera_plugin desc;
	struct edera_host services;
	struct edera_conf *conf;
	struct edera_conf **old_conf; /* replaced by reloads; the plugin may still point into them */
	size_t n_old_conf;
	void *inst;
	bool selected;
	uint8_t mark; /* of the walk that orders plugins */
	/* Under the host's lock, for a worker may find a plugin degraded. */
	enum plugin_state state;
	const char *reason; /* "" or one of the host's texts */
	time_t log_since;   /* beginning of the window in which log_lines were logged */
	unsigned log_lines;
};

struct plugin_host {
	struct plugin_host_options options;
	struct watches *watches;
	pthread_mutex_t lock; /* conf, states, reasons, texts */
	struct conf *conf;
	struct plugin **plugins;
	size_t n_plugins;
	struct conf_plugin *conf_plugins;
	size_t n_conf_plugins;
	struct plugin **order; /* by dependency */
	size_t n_order;
	struct plugin **running; /* as they were started */
	size_t n_running;
	struct plugin_provider hypervisor, image_store, sources[MAX_SOURCES];
	size_t n_sources;
	char **texts; /* reasons, kept until the host goes, so that a list can show them without copying */
	size_t n_texts;
};

void plugin_set_state(struct plugin *, enum plugin_state, const char *reason);
enum plugin_state plugin_get_state(struct plugin *);
const struct edera_provide *plugin_provides(const struct plugin *, uint32_t kind, const char *name); /* name NULL: any */
/* The plugin that provides it and passed its inspection, whatever its state; NULL: none. */
struct plugin *plugin_host_find(struct plugin_host *, uint32_t kind, const char *name);

void services_init(struct plugin *); /* services.c */
int order_plugins(struct plugin_host *); /* order.c: marks cycles and unmet needs as errors; 0 or -ENOMEM */
int select_and_start(struct plugin_host *, struct edera_error *); /* select.c */
/* lifecycle.c */
int plugin_probe(struct plugin *);    /* a candidate that this machine cannot use drops out */
int plugin_bring_up(struct plugin *); /* needs first, then probe, init and start; 0 if it runs */

#endif
