/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host/host.h"

#include <inttypes.h>

struct args {
	const char *output;
};

static void line(struct buf *b, const char *label, const char *value)
{
	if (!value || !*value)
		return;
	buf_printf(b, "%s: ", label);
	text_escape(b, value);
	buf_puts(b, "\n");
}

static void describe(struct buf *b, const Protect__Control__V1__GetHostStatusReply *s)
{
	line(b, "Host UUID", s->host_uuid);
	buf_printf(b, "Host Domain: %" PRIu32 "\n", s->host_domid);
	line(b, "Protect Version", s->protect_version);
	if (s->_protect_git_sha_case)
		line(b, "Protect Revision", s->protect_git_sha);
	line(b, "Host IPv4", s->host_ipv4);
	line(b, "Host IPv6", s->host_ipv6);
	line(b, "Host Ethernet Address", s->host_mac);
	if (s->_hyp_free_mem_case)
		buf_printf(b, "Free Memory: %" PRIu64 " MiB\n", s->hyp_free_mem >> 20);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	enum format format = format_parse(a->output);
	Protect__Control__V1__GetHostStatusRequest request = PROTECT__CONTROL__V1__GET_HOST_STATUS_REQUEST__INIT;
	Protect__Control__V1__GetHostStatusReply *reply _message_ = NULL;
	struct buf out _buf_ = BUF_INIT;
	int r = cli_call(cli, CONTROL, "GetHostStatus", &request, &reply, err);

	if (r)
		return r;
	if (format == FORMAT_SIMPLE)
		describe(&out, reply);
	else
		format_object(&out, format, NULL, reply);
	cli_print(&out);
	return 0;
}

static const struct opt options[] = {
	{ "output", 'o', OPT_STRING, AT(struct args, output), "FORMAT", "how to print", .def = "simple", .choices = format_data_names, .alias = "format", .alias_letter = 'f' },
};

const struct command verb_host_status = {
	.name = "status", .summary = "Show who this host is and which daemon runs on it", OPTIONS(options), .args_size = sizeof(struct args), .run = run,
};
