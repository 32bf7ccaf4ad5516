/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/alloc.h"
#include "base/text.h"
#include "cli/workload/workload.h"
#include "cli/zone/zone.h"

#include <string.h>

bool cli_begins_id(const char *id, const char *wanted)
{
	size_t n = strlen(wanted);

	/* Shorter ones are too easily another's. */
	return n >= 6 && !strncmp(id, wanted, n);
}

/* The one row whose id begins so. -ENOENT: none; -EINVAL: several. */
static int by_prefix(const struct list *list, const char *(*id_of)(const void *row), const char *wanted, char **ret_id, struct edera_error *err)
{
	const char *found = NULL;

	for (size_t i = 0; i < list->n; i++) {
		const char *id = id_of(list->rows[i]);

		if (!cli_begins_id(id, wanted))
			continue;
		if (found)
			return err_set(err, -EINVAL, "'%s' is the beginning of more than one id: %s and %s; give more of it", wanted, found, id);
		found = id;
	}
	if (!found)
		return -ENOENT;
	*ret_id = need(strdup(found));
	return 0;
}

static const char *zone_id(const void *row) { return ((const Protect__Control__V1__Zone *)row)->id; }
static const char *workload_id(const void *row) { return ((const Protect__Control__V1__Workload *)row)->id; }

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
	if ((!id || !*id) && (!r || r == -ENOENT)) {
		struct replies replies _replies_ = { 0 };
		struct list list _list_ = { 0 };

		r = zone_collect(cli, &replies, &list, err);
		if (!r)
			r = by_prefix(&list, zone_id, name, ret_id, err);
		return r ? unresolved(err, r, "zone", name) : 0;
	}
	if (r)
		return r;
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
	if ((!id || !*id) && (!r || r == -ENOENT)) {
		struct replies replies _replies_ = { 0 };
		struct list list _list_ = { 0 };

		r = workload_collect(cli, &replies, &list, err);
		if (!r)
			r = by_prefix(&list, workload_id, name, ret_id, err);
		return r ? unresolved(err, r, "workload", name) : 0;
	}
	if (r)
		return r;
	*ret_id = need(strdup(id));
	return 0;
}
