/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plugin/plugin.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "plugin/check.h"

#include <string.h>

struct args {
	bool child;
};

/* "name<TAB>hello" as a line for people. */
static void describe(struct buf *out, char *report)
{
	for (char *line = strtok(report, "\n"); line; line = strtok(NULL, "\n")) {
		char *value = strchr(line, '\t');

		if (value)
			*value++ = 0;
		buf_printf(out, "%s: ", line);
		text_escape(out, value ? value : "");
		buf_puts(out, "\n");
	}
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	struct buf report _buf_ = BUF_INIT, out _buf_ = BUF_INIT;
	char self[PATH_CAP];
	ssize_t n;
	int r;

	if (a->child)
		return plugin_check_child(operands->v[0]);
	n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n < 0)
		return err_errno(err, -errno, "cannot find the program that is running");
	self[n] = 0;
	r = plugin_check(self, operands->v[0], &report, err);
	if (r)
		return r;
	if (report.data)
		describe(&out, (char *)report.data);
	cli_print(&out);
	return 0;
}

static const struct opt options[] = {
	{ "child", 0, OPT_FLAG, AT(struct args, child), NULL, "do the work, in a process made for it", .hidden = true },
};

static const struct example examples[] = {
	{ "protect plugin check ./hello.so", NULL },
	{ 0 },
};

const struct command verb_plugin_check = {
	.name = "check", .summary = "Say whether a file is a plugin that the daemon would take",
	.about = "Needs no daemon. The file is loaded in a process without privileges, as loading it runs its code. What the plugin says of itself is printed; "
		 "for a file that is none, why not, and the exit status is 1.",
	.operands = "FILE", .min = 1, .max = 1, .names = NAMES_FILE, OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
