/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"
#include "base/cleanup.h"
#include "cli/terminal.h"

#include <signal.h>
#include <unistd.h>

#define AGAIN_NS 1000000000u

static const int caught[CLI_SIGNALS] = { SIGINT, SIGTERM, SIGHUP };

static void on_signal(uv_signal_t *h, int sig)
{
	struct cli *cli = h->data;

	if (!cli->interrupted_at) {
		cli->interrupted = true;
		cli->interrupted_at = uv_hrtime();
	} else if (uv_hrtime() - cli->interrupted_at > AGAIN_NS) {
		terminal_restore();
		_exit(CLI_INTERRUPTED);
	}
}

int interrupts_catch(struct cli *cli, struct edera_error *err)
{
	int r = cli_connect(cli, err);

	if (r)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(caught); i++) {
		uv_signal_t *h = &cli->signals[i];

		uv_signal_init(&cli->loop, h);
		h->data = cli;
		uv_signal_start(h, on_signal, caught[i]);
		uv_unref((uv_handle_t *)h);
	}
	cli->catching = true;
	return 0;
}

bool interrupts_or(struct cli *cli, const int *flag)
{
	while (!*flag && !cli->interrupted)
		uv_run(&cli->loop, UV_RUN_ONCE);
	return cli->interrupted;
}

void interrupts_done(struct cli *cli)
{
	cli->interrupted = false;
}

void interrupts_close(struct cli *cli)
{
	sigset_t set;

	if (!cli->catching)
		return;
	/* The same interrupt may still come a second time, and shall not spoil the exit status. */
	sigemptyset(&set);
	for (size_t i = 0; cli->interrupted_at && i < ARRAY_SIZE(caught); i++)
		sigaddset(&set, caught[i]);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
		uv_close((uv_handle_t *)&cli->signals[i], NULL);
	cli->catching = false;
}
