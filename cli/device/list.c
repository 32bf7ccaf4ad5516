/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/tree.h"

struct args {
	struct list_args list;
};

typedef Protect__Control__V1__DeviceInfo Device;

static void cell_name(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Device *)m)->name);
}

static void cell_status(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Device *)m)->claimed ? "claimed" : "available");
}

static void cell_owner(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Device *)m)->owner_zone);
}

static const struct column columns[] = {
	{ .title = "name", .cell = cell_name }, { .title = "status", .cell = cell_status }, { .title = "owner", .cell = cell_owner, .missing = "n/a" },
};

static const struct list_view view = { columns, ARRAY_SIZE(columns), NULL, 0, "no devices configured", NULL };

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	Protect__Control__V1__ListDevicesRequest request = PROTECT__CONTROL__V1__LIST_DEVICES_REQUEST__INIT;
	Protect__Control__V1__ListDevicesReply *reply _message_ = NULL;
	struct list list _list_ = { 0 };
	int r = cli_call(cli, CONTROL, "ListDevices", &request, &reply, err);

	if (r)
		return r;
	for (size_t i = 0; i < reply->n_devices; i++)
		list_add(&list, reply->devices[i]);
	return list_print(&list, &a->list, &view, &protect__control__v1__device_info__descriptor);
}

static const struct opt options[] = { LIST_OUTPUT(struct args), LIST_SELECTOR(struct args) };

static const struct command device_list = {
	.name = "list", .summary = "List the devices that zones can be given", OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};

static const struct command *const verbs[] = { &device_list, NULL };

const struct command device_group = { .name = "device", .summary = "Devices of this host that zones can be given", .sub = verbs };
