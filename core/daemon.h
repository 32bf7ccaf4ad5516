/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the daemon share. One loop thread owns all of it; workers are given the immutable parts (directories, the plugin
 * host, a reference to a configuration) and copies of the rest. */
#ifndef CORE_DAEMON_H
#define CORE_DAEMON_H

#include <uv.h>
#include "base/path.h"
#include "conf/conf.h"
#include "events.h"
#include "pb.h"
#include "plugin/plugin_host.h"
#include "rpc/grpc.h"
#include "state.h"
#include "worker.h"

struct zone;
struct workload;
struct import;

struct daemon {
	uv_loop_t *loop;
	struct conf *conf;
	struct plugin_host *plugins;
	struct worker_pool *workers;
	struct state *state;
	struct grpc_server *server;
	struct events events;
	struct zone *zones;         /* list */
	struct workload *workloads; /* list */
	struct import *imports;     /* in work */
	char data_dir[PATH_CAP], run_dir[PATH_CAP], cache_dir[PATH_CAP], log_dir[PATH_CAP];
	char host_uuid[37];
};

/* A plugin call came back late or never: `provider` is shown as degraded. */
void daemon_degrade(struct daemon *, const struct plugin_provider *, const char *what);

#endif
