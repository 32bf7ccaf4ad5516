/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/tree.h"

struct args {
	struct list_args list;
};

typedef Protect__Control__V1__NetworkReservation Reservation;

static void cell_uuid(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Reservation *)m)->uuid);
}

static void cell_ipv4(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Reservation *)m)->ipv4);
}

static void cell_ipv6(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Reservation *)m)->ipv6);
}

static void cell_mac(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Reservation *)m)->mac);
}

static const struct column columns[] = {
	{ .title = "uuid", .cell = cell_uuid },
	{ .title = "ipv4", .cell = cell_ipv4, .missing = "n/a" },
	{ .title = "ipv6", .cell = cell_ipv6, .missing = "n/a" },
	{ .title = "mac", .cell = cell_mac, .missing = "n/a" },
};

static const struct list_view view = { columns, ARRAY_SIZE(columns), NULL, 0, "no network reservations found", NULL };

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__ListNetworkReservationsRequest request = PROTECT__CONTROL__V1__LIST_NETWORK_RESERVATIONS_REQUEST__INIT;
	struct replies replies _replies_ = { 0 };
	struct list list _list_ = { 0 };
	int r = cli_collect(cli, CONTROL, "ListNetworkReservations", &request, &replies, err);

	if (r)
		return r;
	for (size_t i = 0; i < replies.n; i++) {
		const Protect__Control__V1__ListNetworkReservationsReply *reply = replies.v[i];

		for (size_t k = 0; k < reply->n_reservations; k++)
			list_add(&list, reply->reservations[k]);
	}
	return list_print(&list, &a->list, &view, &protect__control__v1__network_reservation__descriptor);
}

static const struct opt options[] = { LIST_OUTPUT(struct args), LIST_SELECTOR(struct args) };

static const struct command reservation_list = {
	.name = "list", .summary = "List the network reservations", OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};

static const struct command *const reservation_verbs[] = { &reservation_list, NULL };
static const struct command reservation_group = { .name = "reservation", .summary = "Addresses reserved for zones", .sub = reservation_verbs };

static const struct command *const verbs[] = { &reservation_group, NULL };

const struct command network_group = { .name = "network", .summary = "Networks of zones", .sub = verbs };
