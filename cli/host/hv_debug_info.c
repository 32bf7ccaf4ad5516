/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host/host.h"

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	Protect__Control__V1__HypervisorDebugInfoRequest request = PROTECT__CONTROL__V1__HYPERVISOR_DEBUG_INFO_REQUEST__INIT;
	Protect__Control__V1__HypervisorDebugInfoReply *reply _message_ = NULL;
	int r = cli_call(cli, CONTROL, "HypervisorDebugInfo", &request, &reply, err);

	if (r)
		return r;
	cli_puts(reply->json);
	return 0;
}

const struct command verb_host_hv_debug_info = { .name = "hv-debug-info", .summary = "Print the hypervisor's state as JSON, for reports of faults", .run = run };
