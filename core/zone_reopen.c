/* SPDX-License-Identifier: Apache-2.0 */
/* Getting console and channel back from the backend: after they broke, and after a restart of the daemon. Tried again until it works or
 * the zone ends. */
#include "zone_private.h"
#include "base/cleanup.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_MS 500
#define TIMEOUT_MS 15000

struct reopen {
	struct zone *z;
	const struct plugin_provider *hv;
	char id[40];
	bool want_console, want_channel, stopped;
	int console_fd, channel_fd, status;
	struct edera_error err;
};

static void work(void *user, const struct edera_call *call)
{
	struct reopen *j = user;
	struct edera_vm_info info = { .size = sizeof info };

	j->status = PLUGIN_OP(j->hv, struct edera_hypervisor_ops, vm_info)(j->hv->inst, call, j->id, &info, &j->err);
	j->stopped = j->status == -ENOENT || (j->status == 0 && info.state == EDERA_VM_STOPPED);
	if (j->stopped || j->status)
		return;
	if (j->want_channel)
		j->status = PLUGIN_OP(j->hv, struct edera_hypervisor_ops, vm_channel)(j->hv->inst, call, j->id, &j->channel_fd, &j->err);
	if (!j->status && j->want_console && (j->hv->caps & EDERA_HV_CONSOLE))
		j->status = PLUGIN_OP(j->hv, struct edera_hypervisor_ops, vm_console)(j->hv->inst, call, j->id, &j->console_fd, &j->err);
}

static void free_handle(uv_handle_t *h) { free(h); }

/* The zone may be gone when the timer fires, so it is looked up again. */
struct retry_of {
	struct daemon *d;
	char id[40];
};

static void retry(uv_timer_t *t)
{
	struct retry_of *who = t->data;
	struct zone *z = zone_by_id(who->d, who->id);

	free(who);
	uv_close((uv_handle_t *)t, free_handle);
	if (z && !zone_ending(z)) {
		z->reopening = false;
		zone_reopen(z);
	}
}

static void retry_later(struct zone *z)
{
	uv_timer_t *t = pb_xcalloc(1, sizeof *t);
	struct retry_of *who = pb_xcalloc(1, sizeof *who);

	who->d = z->d;
	snprintf(who->id, sizeof who->id, "%s", z->pb->id);
	uv_timer_init(z->d->loop, t);
	t->data = who;
	uv_timer_start(t, retry, RETRY_MS, 0);
	uv_unref((uv_handle_t *)t);
}

static void done(void *user, bool abandoned)
{
	struct reopen *j = user;
	struct zone *z = j->z;

	if (abandoned)
		daemon_degrade(z->d, j->hv, "vm_channel");
	if (zone_ending(z))
		return;
	if (!abandoned && j->stopped) {
		zone_fail(z, "the zone's VM is gone");
		return;
	}
	if (j->console_fd >= 0)
		zone_console_open(z, steal_fd(&j->console_fd));
	if (abandoned || j->status) {
		log_warning("cannot reach the zone, trying again", "zone", z->pb->id, "error", abandoned ? "the hypervisor did not answer in time" : j->err.msg, NULL);
		retry_later(z);
		return;
	}
	z->reopening = false;
	if (j->channel_fd >= 0)
		zone_agent_open(z, steal_fd(&j->channel_fd));
}

static void release(void *user)
{
	struct reopen *j = user;

	if (j->console_fd >= 0)
		close(j->console_fd);
	if (j->channel_fd >= 0)
		close(j->channel_fd);
	free(j);
}

static const struct worker_ops ops = { work, done, release };

void zone_reopen(struct zone *z)
{
	struct reopen *j;

	if (z->reopening || zone_ending(z))
		return;
	z->reopening = true;
	j = pb_xcalloc(1, sizeof *j);
	*j = (struct reopen){
		.z = z, .hv = plugin_host_hypervisor(z->d->plugins), .want_console = z->console_fd < 0,
		.want_channel = !z->agent || !agent_client_connected(z->agent), .console_fd = -1, .channel_fd = -1, .err = EDERA_ERROR_INIT,
	};
	snprintf(j->id, sizeof j->id, "%s", z->pb->id);
	worker_submit(z->d->workers, z->queue, TIMEOUT_MS, &ops, j);
}
