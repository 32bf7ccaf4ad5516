/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"
#include "base/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

static volatile sig_atomic_t caught, since, child;

static void on_signal(int sig)
{
	int e = errno;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (child)
		kill((pid_t)child, sig);
	if (!caught) {
		caught = sig;
		since = (sig_atomic_t)now.tv_sec;
	} else if ((sig_atomic_t)now.tv_sec - since > 1 && !child) {
		_exit(128 + caught);
	}
	errno = e;
}

void interrupt_catch(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction on = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, was;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(signals[i], &on, NULL);
}

void interrupt_forward(pid_t pid)
{
	child = (sig_atomic_t)pid;
	if (pid && caught)
		kill(pid, caught);
}

int interrupt_caught(void)
{
	return caught;
}
