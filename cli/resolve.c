/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/alloc.h"
#include "base/text.h"

#include <string.h>

static int unresolved(struct edera_error *err, int r, const char *what, const char *name)
{
	return r == -ENOENT || !r ? err_set(err, -ENOENT, "unable to resolve %s '%s'", what, name) : r;
}

int cli_resolve_zone(struct cli *cli, const char *name, char **ret_id, struct edera_error *err)
{
	Protect__Control__V1__ResolveZoneIdRequest by_name = PROTECT__CONTROL__V1__RESOLVE_ZONE_ID_REQUEST__INIT;
	Protect__Control__V1__GetZoneRequest by_id = PROTECT__CONTROL__V1__GET_ZONE_REQUEST__INIT;
	Protect__Control__V1__ResolveZoneIdReply *resolved _message_ = NULL;
	Protect__Control__V1__GetZoneReply *got _message_ = NULL;
	const char *id = NULL;
	int r;

	if (text_is_uuid(name)) {
		by_id.zone_id = (char *)name;
		r = cli_call(cli, CONTROL, "GetZone", &by_id, &got, err);
		id = !r && got->zone ? got->zone->id : NULL;
	} else {
		by_name.name = (char *)name;
		r = cli_call(cli, CONTROL, "ResolveZoneId", &by_name, &resolved, err);
		id = !r ? resolved->zone_id : NULL;
	}
	if (!id || !*id)
		return unresolved(err, r, "zone", name);
	*ret_id = need(strdup(id));
	return 0;
}

int cli_resolve_workload(struct cli *cli, const char *name, char **ret_id, struct edera_error *err)
{
	Protect__Control__V1__ResolveWorkloadIdRequest by_name = PROTECT__CONTROL__V1__RESOLVE_WORKLOAD_ID_REQUEST__INIT;
	Protect__Control__V1__GetWorkloadRequest by_id = PROTECT__CONTROL__V1__GET_WORKLOAD_REQUEST__INIT;
	Protect__Control__V1__ResolveWorkloadIdReply *resolved _message_ = NULL;
	Protect__Control__V1__GetWorkloadReply *got _message_ = NULL;
	const char *id = NULL;
	int r;

	if (text_is_uuid(name)) {
		by_id.workload_id = (char *)name;
		r = cli_call(cli, CONTROL, "GetWorkload", &by_id, &got, err);
		id = !r && got->workload ? got->workload->id : NULL;
	} else {
		by_name.name = (char *)name;
		r = cli_call(cli, CONTROL, "ResolveWorkloadId", &by_name, &resolved, err);
		id = !r ? resolved->workload_id : NULL;
	}
	if (!id || !*id)
		return unresolved(err, r, "workload", name);
	*ret_id = need(strdup(id));
	return 0;
}
