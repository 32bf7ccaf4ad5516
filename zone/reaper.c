/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that waits for children: those we started, those crun left to us, and every orphan of the zone. */
#include "agent.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct waited {
	pid_t pid;
	reaper_fn fn;
	void *user;
};

struct reaped {
	pid_t pid;
	int status;
};

static struct {
	struct waited *waited;
	size_t n_waited, cap_waited;
	struct reaped *reaped; /* while held: a child whose pid we have not been told yet may end before we are */
	size_t n_reaped, cap_reaped;
	unsigned holds;
	uv_signal_t sigchld;
	uv_timer_t late;
} reaper;

static void keep(pid_t pid, int status)
{
	if (reaper.n_reaped == reaper.cap_reaped) {
		size_t cap = reaper.cap_reaped ? reaper.cap_reaped * 2 : 64;
		struct reaped *p = realloc(reaper.reaped, cap * sizeof *p);

		if (!p)
			return;
		reaper.reaped = p;
		reaper.cap_reaped = cap;
	}
	reaper.reaped[reaper.n_reaped++] = (struct reaped){ pid, status };
}

static void report(pid_t pid, int status)
{
	for (size_t i = 0; i < reaper.n_waited; i++) {
		struct waited w = reaper.waited[i];

		if (w.pid != pid)
			continue;
		reaper.waited[i] = reaper.waited[--reaper.n_waited];
		w.fn(w.user, status);
		return;
	}
	if (reaper.holds)
		keep(pid, status);
}

static void on_sigchld(uv_signal_t *s, int signum)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		report(pid, status);
}

/* Children that had ended before they were asked about. */
static void on_late(uv_timer_t *t)
{
	for (size_t i = 0; i < reaper.n_reaped;) {
		struct reaped r = reaper.reaped[i];
		bool known = false;

		for (size_t k = 0; k < reaper.n_waited && !known; k++)
			known = reaper.waited[k].pid == r.pid;
		if (known) {
			reaper.reaped[i] = reaper.reaped[--reaper.n_reaped];
			report(r.pid, r.status);
			i = 0;
		} else {
			i++;
		}
	}
	if (!reaper.holds)
		reaper.n_reaped = 0;
}

int reaper_start(struct agent *a, struct edera_error *err)
{
	int r = uv_signal_init(a->loop, &reaper.sigchld);

	if (!r)
		r = uv_timer_init(a->loop, &reaper.late);
	if (!r)
		r = uv_signal_start(&reaper.sigchld, on_sigchld, SIGCHLD);
	if (r < 0)
		return err_errno(err, r, "cannot watch child processes");
	return 0;
}

void reaper_watch(pid_t pid, reaper_fn fn, void *user)
{
	if (reaper.n_waited == reaper.cap_waited) {
		size_t cap = reaper.cap_waited ? reaper.cap_waited * 2 : 64;
		struct waited *p = realloc(reaper.waited, cap * sizeof *p);

		if (!p)
			abort(); /* a child nobody waits for would hang its owner for ever */
		reaper.waited = p;
		reaper.cap_waited = cap;
	}
	reaper.waited[reaper.n_waited++] = (struct waited){ pid, fn, user };
	if (reaper.n_reaped)
		uv_timer_start(&reaper.late, on_late, 0, 0);
}

void reaper_forget(void *user)
{
	for (size_t i = 0; i < reaper.n_waited;) {
		if (reaper.waited[i].user == user)
			reaper.waited[i] = reaper.waited[--reaper.n_waited];
		else
			i++;
	}
}

void reaper_hold(void)
{
	reaper.holds++;
}

void reaper_unhold(void)
{
	if (!--reaper.holds)
		uv_timer_start(&reaper.late, on_late, 0, 0);
}
