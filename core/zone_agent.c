/* SPDX-License-Identifier: Apache-2.0 */
/* The zone's agent as the zone sees it: connected, configured, ready; lost and found again. */
#include "zone_private.h"
#include "base/log.h"
#include "workload.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONFIGURE_TIMEOUT_MS 60000

#define STATE(name) PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_##name

static void log_warnings(struct zone *z, char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		log_warning("the zone's agent reports a fault", "zone", z->pb->id, "fault", list[i], NULL);
}

static void configured(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	struct zone *z = user;

	if (err) {
		if (err->code != -ECANCELED)
			zone_fail(z, "the zone's agent could not set the zone up: %s", err->msg);
		return;
	}
	log_warnings(z, ((const Edera__Agent__V1__ConfigureReply *)reply)->warnings, ((const Edera__Agent__V1__ConfigureReply *)reply)->n_warnings);
}

static void configure(struct zone *z)
{
	Edera__Agent__V1__ConfigureRequest q = EDERA__AGENT__V1__CONFIGURE_REQUEST__INIT;
	const PbZoneSpec *spec = z->pb->spec;
	const PB(KernelOptionsSpec) *k = spec->kernel_options;
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	q.hostname = spec->name;
	q.addons_serial = zone_has_addons(z) ? (char *)"addons" : (char *)"";
	if (k) {
		q.n_modules = k->n_modules;
		q.modules = k->modules;
		q.n_module_parameters = k->n_module_parameters;
		q.module_parameters = k->module_parameters;
		q.n_sysctls = k->n_sysctl_parameters;
		q.sysctls = k->sysctl_parameters;
	}
	if (spec->network_options)
		q.dns = spec->network_options->dns_config;
	q.time_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	agent_call(z->agent, "Configure", &q.base, CONFIGURE_TIMEOUT_MS, configured, z);
}

/* The agent answers. It keeps whatever comes behind Configure until that is done, so nobody has to wait for it here. */
static void ready(struct zone *z)
{
	zone_stop_deadline(z);
	if (zone_state(z) != STATE(READY)) {
		if (!z->pb->status->ready_at)
			z->pb->status->ready_at = pb_now();
		zone_set_state(z, STATE(READY));
	}
	workload_zone_ready(z);
}

static void connected(struct agent_client *a, uint64_t instance, void *user)
{
	struct zone *z = user;

	(void)a;
	if (z->agent_instance == instance) {
		log_info("the zone's agent answers again", "zone", z->pb->id, NULL);
		return;
	}
	if (z->agent_instance) {
		zone_fail(z, "the zone's kernel was restarted from within; what ran in it is gone");
		return;
	}
	z->agent_instance = instance;
	configure(z);
	ready(z);
}

static void lost(struct agent_client *a, const struct edera_error *why, void *user)
{
	struct zone *z = user;

	(void)a;
	log_warning("the zone's agent channel was lost", "zone", z->pb->id, "error", why->msg, NULL);
	zone_reopen(z);
}

static const struct agent_client_ops ops = { connected, lost };

void zone_agent_open(struct zone *z, int fd)
{
	struct edera_error err = EDERA_ERROR_INIT;

	if (!z->agent)
		z->agent = agent_client_new(z->d->loop, &ops, z);
	if (!z->agent)
		abort();
	if (fd < 0 || agent_client_attach(z->agent, fd, &err))
		zone_reopen(z);
}

void zone_agent_close(struct zone *z)
{
	struct agent_client *a = z->agent;

	z->agent = NULL;
	agent_client_free(a);
}
