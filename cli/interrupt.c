/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"
#include "base/cleanup.h"
#include "cli/terminal.h"

#include <signal.h>
#include <unistd.h>

static const int caught[CLI_SIGNALS] = { SIGINT, SIGTERM, SIGHUP };

static void on_signal(uv_signal_t *h, int sig)
{
	struct cli *cli = h->data;

	if (++cli->interrupts > 1) {
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
	while (!*flag && !cli->interrupts)
		uv_run(&cli->loop, UV_RUN_ONCE);
	return cli->interrupts;
}

void interrupts_close(struct cli *cli)
{
	if (!cli->catching)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
		uv_close((uv_handle_t *)&cli->signals[i], NULL);
	cli->catching = false;
}
