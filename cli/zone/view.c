/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "base/cleanup.h"

typedef Protect__Control__V1__Zone Zone;

const char *zone_name(const Zone *z)
{
	return z->spec && z->spec->name ? z->spec->name : "";
}

Protect__Control__V1__ZoneState zone_state(const Zone *z)
{
	return z->status ? z->status->state : PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_UNKNOWN;
}

const char *zone_failure(const Zone *z)
{
	return z->status && z->status->error_status && z->status->error_status->message ? z->status->error_status->message : "";
}

static void cell_name(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, zone_name(m));
}

static void cell_id(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Zone *)m)->id);
}

static void cell_state(const void *m, const void *context, struct buf *b)
{
	format_enum_word(b, &protect__control__v1__zone_state__descriptor, (int)zone_state(m));
}

static enum colour state_colour(const void *m)
{
	switch (zone_state(m)) {
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_CREATED:
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_READY:
		return COLOUR_GREEN;
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_FAILED:
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_DESTROYED:
		return COLOUR_RED;
	case PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_UNKNOWN:
		return COLOUR_NONE;
	default:
		return COLOUR_YELLOW;
	}
}

static void addresses(const Zone *z, Protect__Control__V1__ZoneNetworkIpVersion version, struct buf *b)
{
	const Protect__Control__V1__ZoneNetworkStatus *n = z->status ? z->status->network_status : NULL;

	for (size_t i = 0; n && i < n->n_interfaces; i++)
		for (size_t k = 0; k < n->interfaces[i]->n_ips; k++)
			if (n->interfaces[i]->ips[k]->version == version)
				buf_printf(b, "%s%s", b->len ? ", " : "", n->interfaces[i]->ips[k]->address);
}

static void cell_ipv4(const void *m, const void *context, struct buf *b)
{
	addresses(m, PROTECT__CONTROL__V1__ZONE_NETWORK_IP_VERSION__ZONE_NETWORK_IP_VERSION_V4, b);
}

static void cell_ipv6(const void *m, const void *context, struct buf *b)
{
	addresses(m, PROTECT__CONTROL__V1__ZONE_NETWORK_IP_VERSION__ZONE_NETWORK_IP_VERSION_V6, b);
}

static const struct column columns[] = {
	{ .title = "name", .cell = cell_name },
	{ .title = "uuid", .cell = cell_id },
	{ .title = "state", .cell = cell_state, .colour = state_colour },
	{ .title = "ipv4", .cell = cell_ipv4, .missing = "n/a" },
	{ .title = "ipv6", .cell = cell_ipv6, .missing = "n/a" },
};

static const struct column simple[] = {
	{ .cell = cell_id }, { .cell = cell_state }, { .cell = cell_name }, { .cell = cell_ipv4 }, { .cell = cell_ipv6 },
};

const struct list_view zone_view = { columns, ARRAY_SIZE(columns), simple, ARRAY_SIZE(simple), "no zones have been launched", NULL };

int zone_collect(struct cli *cli, struct replies *replies, struct list *list, struct edera_error *err)
{
	Protect__Control__V1__ListZonesRequest request = PROTECT__CONTROL__V1__LIST_ZONES_REQUEST__INIT;
	int r = cli_collect(cli, CONTROL, "ListZones", &request, replies, err);

	for (size_t i = 0; !r && i < replies->n; i++) {
		const Protect__Control__V1__ListZonesReply *reply = replies->v[i];

		for (size_t k = 0; k < reply->n_zones; k++)
			list_add(list, reply->zones[k]);
	}
	return r;
}
