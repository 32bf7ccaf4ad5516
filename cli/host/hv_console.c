/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host/host.h"

#include <string.h>

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	Protect__Control__V1__ReadHypervisorConsoleRequest request = PROTECT__CONTROL__V1__READ_HYPERVISOR_CONSOLE_REQUEST__INIT;
	Protect__Control__V1__ReadHypervisorConsoleReply *reply _message_ = NULL;
	struct buf out _buf_ = BUF_INIT;
	int r = cli_call(cli, CONTROL, "ReadHypervisorConsole", &request, &reply, err);

	if (r)
		return r;
	buf_puts(&out, reply->data);
	cli_print(&out);
	return 0;
}

const struct command verb_host_hv_console = { .name = "hv-console", .summary = "Print the hypervisor's own log", .run = run };
