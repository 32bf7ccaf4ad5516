/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "base/log.h"
#include "process.h"
#include "workload.h"
#include <signal.h>
#include <sys/reboot.h>
#include <unistd.h>

#define LOOK_MS 10
#define FLUSH_MS 200
#define GRACE_MAX_MS 60000

static struct {
	struct agent *a;
	uv_timer_t timer;
	uint64_t deadline;
	bool reboot;
} ending;

static void end(void)
{
	struct agent *a = ending.a;

	if (!a->init) {
		log_info("the zone agent ends", NULL);
		uv_stop(a->loop);
		return;
	}
	kill(-1, SIGKILL);
	sync();
	if (a->channel)
		channel_flush_blocking(a->channel, FLUSH_MS);
	reboot(ending.reboot ? RB_AUTOBOOT : RB_POWER_OFF);
	log_error("the machine does not power off", NULL);
}

static void on_look(uv_timer_t *t)
{
	if (!processes_running(ending.a) || uv_now(ending.a->loop) >= ending.deadline) {
		uv_timer_stop(t);
		processes_signal(ending.a, SIGKILL);
		end();
	}
}

void agent_shutdown(struct agent *a, unsigned grace_ms, bool reboot)
{
	if (a->stopping)
		return;
	a->stopping = true;
	ending.a = a;
	ending.reboot = reboot;
	ending.deadline = uv_now(a->loop) + (grace_ms < GRACE_MAX_MS ? grace_ms : GRACE_MAX_MS);
	processes_signal(a, SIGTERM);
	uv_timer_init(a->loop, &ending.timer);
	uv_timer_start(&ending.timer, on_look, 0, LOOK_MS);
}
