/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"
#include "base/cleanup.h"
#include "zone.h"

#include <stdlib.h>
#include <string.h>

#define LIST_BATCH 64

static struct zone *find(struct grpc_call *call, const char *id)
{
	struct zone *z = zone_by_id(SERVICE_DAEMON(call), id);
	struct edera_error err = EDERA_ERROR_INIT;

	if (!z) {
		err_set(&err, -ENOENT, "there is no zone with the id '%.100s'", id);
		grpc_call_finish_error(call, &err);
	}
	return z;
}

void service_create_zone(struct grpc_call *call, const ProtobufCMessage *m)
{
	const PB(CreateZoneRequest) *q = (const void *)m;
	PB(CreateZoneReply) reply = PROTECT__CONTROL__V1__CREATE_ZONE_REPLY__INIT;
	struct edera_error err = EDERA_ERROR_INIT;
	PB(ResourceOrigin) *origin;
	struct zone *z;
	int r;

	if (!q->spec) {
		grpc_call_finish(call, RPC_INVALID_ARGUMENT, "the request holds no zone spec");
		return;
	}
	origin = service_origin(call);
	r = zone_create(SERVICE_DAEMON(call), q->spec, origin, &z, &err);
	pb_free(origin);
	if (r) {
		grpc_call_finish_error(call, &err);
		return;
	}
	reply.zone_id = z->pb->id;
	grpc_call_reply(call, &reply.base);
}

void service_destroy_zone(struct grpc_call *call, const ProtobufCMessage *m)
{
	PB(DestroyZoneReply) reply = PROTECT__CONTROL__V1__DESTROY_ZONE_REPLY__INIT;
	struct zone *z = find(call, ((const PB(DestroyZoneRequest) *)m)->zone_id);

	if (!z)
		return;
	zone_destroy(z);
	grpc_call_reply(call, &reply.base);
}

void service_get_zone(struct grpc_call *call, const ProtobufCMessage *m)
{
	PB(GetZoneReply) reply = PROTECT__CONTROL__V1__GET_ZONE_REPLY__INIT;
	struct zone *z = find(call, ((const PB(GetZoneRequest) *)m)->zone_id);

	if (!z)
		return;
	reply.zone = z->pb;
	grpc_call_reply(call, &reply.base);
}

void service_list_zones(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct daemon *d = SERVICE_DAEMON(call);
	PB(ListZonesReply) reply = PROTECT__CONTROL__V1__LIST_ZONES_REPLY__INIT;
	PbZone *batch[LIST_BATCH];
	struct zone *z = d->zones;

	(void)m;
	reply.zones = batch;
	/* One message even for none: clients wait for the first. */
	do {
		for (reply.n_zones = 0; z && reply.n_zones < LIST_BATCH; z = z->next)
			batch[reply.n_zones++] = z->pb;
		if (grpc_call_send(call, &reply.base)) {
			grpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "there are more zones than one answer can hold");
			return;
		}
	} while (z);
	grpc_call_finish(call, RPC_OK, NULL);
}

static void no_such_name(struct grpc_call *call, const char *name)
{
	struct edera_error err = EDERA_ERROR_INIT;

	err_set(&err, -ENOENT, "unable to resolve zone '%.253s'", name);
	grpc_call_finish_error(call, &err);
}

void service_resolve_zone_id(struct grpc_call *call, const ProtobufCMessage *m)
{
	const char *name = ((const PB(ResolveZoneIdRequest) *)m)->name;
	PB(ResolveZoneIdReply) reply = PROTECT__CONTROL__V1__RESOLVE_ZONE_ID_REPLY__INIT;
	struct zone *z = zone_by_name(SERVICE_DAEMON(call), name);

	if (!z) {
		no_such_name(call, name);
		return;
	}
	reply.zone_id = z->pb->id;
	grpc_call_reply(call, &reply.base);
}

void service_resolve_zone_ids(struct grpc_call *call, const ProtobufCMessage *m)
{
	const char *name = ((const PB(ResolveZoneIdsRequest) *)m)->name;
	PB(ResolveZoneIdsReply) reply = PROTECT__CONTROL__V1__RESOLVE_ZONE_IDS_REPLY__INIT;
	struct daemon *d = SERVICE_DAEMON(call);
	_free_ char **ids = NULL;
	size_t n = 0;

	for (struct zone *z = d->zones; z; z = z->next)
		n++;
	ids = pb_xcalloc(n + 1, sizeof *ids);
	for (struct zone *z = d->zones; z; z = z->next)
		if (!strcmp(z->pb->spec->name, name))
			ids[reply.n_zone_ids++] = z->pb->id;
	reply.zone_ids = ids;
	grpc_call_reply(call, &reply.base);
}
