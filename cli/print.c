/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/alloc.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static void output_failed(int e)
{
	if (e == EPIPE) {
		/* SIGPIPE is ignored while a daemon's socket is open; this is where it is meant. */
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	cli_warn("cannot write the output: %s", strerror(e));
	exit(1);
}

void cli_print(const struct buf *b)
{
	if (b->failed)
		need(NULL);
	if (b->len)
		fwrite(b->data, 1, b->len, stdout);
	if (fflush(stdout))
		output_failed(errno);
}

void cli_puts(const char *line)
{
	struct buf b _buf_ = BUF_INIT;

	buf_printf(&b, "%s\n", line);
	cli_print(&b);
}

static void say(const char *fmt, va_list ap)
{
	struct buf text _buf_ = BUF_INIT, safe _buf_ = BUF_INIT;
	char s[2048];

	vsnprintf(s, sizeof s, fmt, ap);
	text_escape(&safe, s);
	buf_printf(&text, "protect: %s\n", safe.data ? (const char *)safe.data : "");
	fwrite(text.data, 1, text.len, stderr);
}

void cli_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

int cli_bad_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	return CLI_USAGE;
}
