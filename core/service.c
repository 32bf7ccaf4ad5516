/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"
#include "base/cleanup.h"
#include "base/text.h"

static const struct grpc_method control_methods[] = {
	{ .name = "GetHostStatus", .message = service_host_status },
	{ .name = "GetHostCpuTopology", .message = service_host_cpu_topology },
	{ .name = "ListDevices", .message = service_list_devices },
	{ .name = "ListNetworkReservations", .server_stream = true, .message = service_list_network_reservations },
	{ .name = "ReadZoneMetrics", .message = service_read_zone_metrics, .closed = service_read_zone_metrics_closed },
	{ .name = "CreateZone", .message = service_create_zone },
	{ .name = "DestroyZone", .message = service_destroy_zone },
	{ .name = "GetZone", .message = service_get_zone },
	{ .name = "ListZones", .server_stream = true, .message = service_list_zones },
	{ .name = "ResolveZoneId", .message = service_resolve_zone_id },
	{ .name = "ResolveZoneIds", .message = service_resolve_zone_ids },
	{ .name = "CreateWorkload", .message = service_create_workload, .closed = service_workload_wait_closed },
	{ .name = "StartWorkload", .message = service_start_workload, .closed = service_workload_wait_closed },
	{ .name = "StopWorkload", .message = service_stop_workload, .closed = service_workload_wait_closed },
	{ .name = "DestroyWorkload", .message = service_destroy_workload, .closed = service_workload_wait_closed },
	{ .name = "GetWorkload", .message = service_get_workload },
	{ .name = "ListWorkloads", .server_stream = true, .message = service_list_workloads },
	{ .name = "ResolveWorkloadId", .message = service_resolve_workload_id },
	{ .name = "ResolveWorkloadIds", .message = service_resolve_workload_ids },
	{ .name = "WatchEvents", .server_stream = true, .message = service_watch_events, .closed = service_watch_events_closed },
	{ .name = "PullImage", .server_stream = true, .message = service_pull_image, .closed = service_job_closed },
	{ .name = "ImportImage", .client_stream = true, .server_stream = true, .message = service_import_image, .half_closed = service_import_half_closed,
	  .closed = service_import_closed },
	{ .name = "ListImages", .server_stream = true, .message = service_list_images, .closed = service_job_closed },
	{ .name = "RemoveImage", .message = service_remove_image, .closed = service_job_closed },
	{ .name = "ListKernelVariants", .message = service_list_kernel_variants, .closed = service_job_closed },
	{ .name = "ExecuteZoneCommand", .client_stream = true, .server_stream = true, .message = service_execute, .half_closed = service_execute_half_closed,
	  .writable = service_execute_writable, .closed = service_execute_closed },
	{ .name = "AttachZoneConsole", .client_stream = true, .server_stream = true, .message = service_zone_console, .half_closed = service_zone_console_half_closed,
	  .writable = service_zone_console_writable, .closed = service_zone_console_closed },
	{ .name = "AttachWorkloadConsole", .client_stream = true, .server_stream = true, .message = service_workload_console,
	  .half_closed = service_workload_console_half_closed, .writable = service_workload_console_writable, .closed = service_workload_console_closed },
};

static const struct grpc_method node_methods[] = {
	{ .name = "ListPlugins", .message = service_list_plugins },
	{ .name = "GetPlugin", .message = service_get_plugin },
	{ .name = "ListKernelVariants", .message = service_node_list_kernel_variants, .closed = service_job_closed },
	{ .name = "ReadWorkloadLogs", .server_stream = true, .message = service_workload_logs, .writable = service_workload_logs_writable,
	  .closed = service_workload_logs_closed },
	{ .name = "ListImages", .message = service_node_list_images, .closed = service_job_closed },
	{ .name = "PruneImages", .message = service_node_prune_images, .closed = service_job_closed },
};

int service_add_all(struct daemon *d, struct edera_error *err)
{
	static struct grpc_service control = { &protect__control__v1__control_service__descriptor, control_methods, ARRAY_SIZE(control_methods), NULL };
	static struct grpc_service node = { &edera__node__v1__node_service__descriptor, node_methods, ARRAY_SIZE(node_methods), NULL };
	int r;

	control.user = node.user = d;
	r = grpc_server_add(d->server, &control, err);
	return r ? r : grpc_server_add(d->server, &node, err);
}

PB(ResourceOrigin) *service_origin(const struct grpc_call *call)
{
	const struct grpc_peer *peer = grpc_call_peer(call);
	PB(ResourceOrigin) *o = pb_xcalloc(1, sizeof *o);
	_buf_ struct buf b = BUF_INIT;

	protect__control__v1__resource_origin__init(o);
	buf_printf(&b, "%s (%s, pid %d, uid %u)", *grpc_call_user_agent(call) ? grpc_call_user_agent(call) : "unknown", peer->comm, (int)peer->pid, (unsigned)peer->uid);
	pb_set(&o->user_agent, b.failed ? "" : (char *)b.data);
	if (o->user_agent != protobuf_c_empty_string)
		text_force_utf8(o->user_agent);
	return o;
}
