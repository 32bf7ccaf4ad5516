/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"
#include "base/cleanup.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t is_raw;

void terminal_restore(void)
{
	if (!is_raw)
		return;
	/* Safe in a signal handler, which is one of the places this is called from. */
	tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	is_raw = 0;
}

static void on_crash(int sig)
{
	terminal_restore();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void restore_on_crash(void)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT };
	struct sigaction sa = { .sa_handler = on_crash };

	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++)
		sigaction(crashes[i], &sa, NULL);
}

bool terminal_raw(void)
{
	struct termios raw;

	if (!is_raw) {
		static bool prepared;

		if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before) < 0)
			return false;
		if (!prepared) {
			atexit(terminal_restore);
			restore_on_crash();
			prepared = true;
		}
	}
	raw = before;
	cfmakeraw(&raw);
	is_raw = 1;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
		is_raw = 0;
		return false;
	}
	return true;
}

bool terminal_size(uint32_t *ret_rows, uint32_t *ret_columns)
{
	struct winsize ws;

	for (int fd = 0; fd < 3; fd++) {
		if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_row && ws.ws_col) {
			*ret_rows = ws.ws_row;
			*ret_columns = ws.ws_col;
			return true;
		}
	}
	return false;
}
