/* SPDX-License-Identifier: Apache-2.0 */
/* The RPC methods, a file for each subject; service.c puts them into the two services. */
#ifndef CORE_SERVICE_H
#define CORE_SERVICE_H

#include "daemon.h"

int service_add_all(struct daemon *, struct edera_error *);

#define SERVICE_DAEMON(call) ((struct daemon *)grpc_call_service_user(call))

/* Who asked, for Zone.origin and Workload.origin: the client's name for itself and what the kernel says of it. The caller frees with pb_free. */
PB(ResourceOrigin) *service_origin(const struct grpc_call *);

/* service_zone.c */
void service_create_zone(struct grpc_call *, const ProtobufCMessage *);
void service_destroy_zone(struct grpc_call *, const ProtobufCMessage *);
void service_get_zone(struct grpc_call *, const ProtobufCMessage *);
void service_list_zones(struct grpc_call *, const ProtobufCMessage *);
void service_resolve_zone_id(struct grpc_call *, const ProtobufCMessage *);
void service_resolve_zone_ids(struct grpc_call *, const ProtobufCMessage *);
/* service_workload.c */
void service_create_workload(struct grpc_call *, const ProtobufCMessage *);
void service_start_workload(struct grpc_call *, const ProtobufCMessage *);
void service_stop_workload(struct grpc_call *, const ProtobufCMessage *);
void service_destroy_workload(struct grpc_call *, const ProtobufCMessage *);
void service_get_workload(struct grpc_call *, const ProtobufCMessage *);
void service_list_workloads(struct grpc_call *, const ProtobufCMessage *);
void service_resolve_workload_id(struct grpc_call *, const ProtobufCMessage *);
void service_resolve_workload_ids(struct grpc_call *, const ProtobufCMessage *);
void service_workload_wait_closed(struct grpc_call *);
/* service_events.c */
void service_watch_events(struct grpc_call *, const ProtobufCMessage *);
void service_watch_events_closed(struct grpc_call *);
/* service_pull.c, service_image.c, service_variant.c: service_job_closed is the `closed` of each */
void service_pull_image(struct grpc_call *, const ProtobufCMessage *);
void service_list_images(struct grpc_call *, const ProtobufCMessage *);
void service_remove_image(struct grpc_call *, const ProtobufCMessage *);
void service_list_kernel_variants(struct grpc_call *, const ProtobufCMessage *);
void service_node_list_images(struct grpc_call *, const ProtobufCMessage *);
void service_node_prune_images(struct grpc_call *, const ProtobufCMessage *);
void service_node_list_kernel_variants(struct grpc_call *, const ProtobufCMessage *);
void service_job_closed(struct grpc_call *);
/* service_import.c */
void service_import_image(struct grpc_call *, const ProtobufCMessage *);
void service_import_half_closed(struct grpc_call *);
void service_import_closed(struct grpc_call *);
/* service_exec.c */
void service_execute(struct grpc_call *, const ProtobufCMessage *);
void service_execute_half_closed(struct grpc_call *);
void service_execute_writable(struct grpc_call *);
void service_execute_closed(struct grpc_call *);
/* service_console.c */
void service_zone_console(struct grpc_call *, const ProtobufCMessage *);
void service_zone_console_half_closed(struct grpc_call *);
void service_zone_console_writable(struct grpc_call *);
void service_zone_console_closed(struct grpc_call *);
void service_workload_console(struct grpc_call *, const ProtobufCMessage *);
void service_workload_console_half_closed(struct grpc_call *);
void service_workload_console_writable(struct grpc_call *);
void service_workload_console_closed(struct grpc_call *);
void service_workload_logs(struct grpc_call *, const ProtobufCMessage *);
void service_workload_logs_writable(struct grpc_call *);
void service_workload_logs_closed(struct grpc_call *);
/* service_host.c */
void service_host_status(struct grpc_call *, const ProtobufCMessage *);
void service_host_cpu_topology(struct grpc_call *, const ProtobufCMessage *);
void service_list_devices(struct grpc_call *, const ProtobufCMessage *);
void service_list_network_reservations(struct grpc_call *, const ProtobufCMessage *);
/* service_metrics.c */
void service_read_zone_metrics(struct grpc_call *, const ProtobufCMessage *);
void service_read_zone_metrics_closed(struct grpc_call *);
/* service_plugin.c */
void service_list_plugins(struct grpc_call *, const ProtobufCMessage *);
void service_get_plugin(struct grpc_call *, const ProtobufCMessage *);

#endif
