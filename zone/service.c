/* SPDX-License-Identifier: Apache-2.0 */
/* The agent protocol's server: link, ttrpc, dispatch. */
#include "agent.h"

#include "base/log.h"
#include "process.h"
#include "rpc/link.h"
#include "rpc/ttrpc.h"
#include "workload.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#define QUEUE_HIGH (256u << 10) /* bytes on the way to the host from which on no more output is handed over */

static uint64_t uptime_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void status(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	Edera__Agent__V1__StatusReply r = EDERA__AGENT__V1__STATUS_REPLY__INIT;
	struct utsname u;

	if (!a->boot_ms)
		a->boot_ms = now_ms() - a->started_ms;
	uname(&u);
	r.version = (char *)PACKAGE_VERSION;
	r.instance = a->instance;
	r.kernel_release = u.release;
	r.uptime_ms = uptime_ms();
	r.boot_ms = a->boot_ms;
	r.configured = a->configured;
	r.n_warnings = a->n_warnings;
	r.warnings = a->warnings;
	caller_reply(a, from, &r.base);
}

static void shutdown_zone(struct agent *a, const ProtobufCMessage *m, struct caller from)
{
	const Edera__Agent__V1__ShutdownRequest *r = (const Edera__Agent__V1__ShutdownRequest *)m;
	Edera__Agent__V1__ShutdownReply reply = EDERA__AGENT__V1__SHUTDOWN_REPLY__INIT;

	caller_reply(a, from, &reply.base);
	agent_shutdown(a, r->grace_ms, r->reboot);
}

static const struct method {
	const char *name;
	void (*serve)(struct agent *, const ProtobufCMessage *, struct caller);
	bool at_once; /* also while the zone is still being set up */
} methods[] = {
	{ "Status", status, true },
	{ "Configure", configure, false },
	{ "Metrics", metrics_reply, true },
	{ "List", workload_list, false },
	{ "CreateWorkload", workload_create, false },
	{ "StartWorkload", workload_start, false },
	{ "DeleteWorkload", workload_delete, false },
	{ "Exec", process_exec, false },
	{ "Read", process_read, false },
	{ "Write", process_write, false },
	{ "Resize", process_resize, false },
	{ "Signal", process_signal, false },
	{ "Wait", process_wait, false },
	{ "Release", process_release, false },
	{ "Shutdown", shutdown_zone, true },
};

/* ---- calls that came before the zone was set up: all of them wait, so that each finds what an earlier one made ---- */

struct early {
	struct early *next;
	const struct method *method;
	struct caller from;
	ProtobufCMessage *m;
};

static struct early *early, **early_end = &early;

static bool keep_early(const struct method *method, struct caller from, ProtobufCMessage *m)
{
	struct early *e = calloc(1, sizeof *e);

	if (!e)
		return false;
	e->method = method;
	e->from = from;
	e->m = m;
	*early_end = e;
	early_end = &e->next;
	return true;
}

static struct early *take_early(void)
{
	struct early *e = early;

	early = e->next;
	if (!early)
		early_end = &early;
	return e;
}

static void free_early(struct early *e)
{
	protobuf_c_message_free_unpacked(e->m, NULL);
	free(e);
}

static bool set_up(const struct agent *a)
{
	return a->settled && !a->configuring;
}

void service_go_on(struct agent *a)
{
	static bool going;

	if (going) /* a Configure among them was over at once */
		return;
	going = true;
	while (early && set_up(a)) {
		struct early *e = take_early();

		e->method->serve(a, e->m, e->from);
		free_early(e);
	}
	going = false;
}

static void on_request(void *user, struct ttrpc_conn *conn, const struct ttrpc_request *q)
{
	const ProtobufCServiceDescriptor *service = &edera__agent__v1__agent__descriptor;
	const ProtobufCMethodDescriptor *d = NULL;
	struct edera_error err = EDERA_ERROR_INIT;
	ProtobufCMessage *m = NULL;
	struct agent *a = user;
	struct caller from = { a->epoch, q->stream };

	if (!strcmp(q->service, service->name))
		d = protobuf_c_service_descriptor_get_method_by_name(service, q->method);
	for (size_t i = 0; d && i < sizeof methods / sizeof methods[0]; i++) {
		if (strcmp(methods[i].name, q->method))
			continue;
		if (rpc_msg_unpack(d->input, q->payload, q->payload_len, NULL, &m, &err)) {
			caller_fail(a, from, &err);
		} else if (methods[i].at_once || set_up(a)) {
			methods[i].serve(a, m, from);
			protobuf_c_message_free_unpacked(m, NULL);
		} else if (!keep_early(&methods[i], from, m)) {
			err_set(&err, -ENOMEM, "out of memory");
			caller_fail(a, from, &err);
			protobuf_c_message_free_unpacked(m, NULL);
		}
		boot_continue(a);
		return;
	}
	ttrpc_conn_reply_error(conn, q->stream, RPC_UNIMPLEMENTED, "this agent does not know that method");
}

/* ---- answers ---- */

void caller_reply(struct agent *a, struct caller c, const ProtobufCMessage *m)
{
	if (a->rpc && c.epoch == a->epoch)
		ttrpc_conn_reply(a->rpc, c.stream, m);
}

void caller_fail(struct agent *a, struct caller c, const struct edera_error *err)
{
	if (a->rpc && c.epoch == a->epoch)
		ttrpc_conn_reply_error(a->rpc, c.stream, rpc_status_of_errno(err->code), err->msg);
}

void callers_add(struct callers *cs, struct caller c)
{
	struct caller *p = realloc(cs->all, (cs->n + 1) * sizeof *p);

	if (!p)
		return; /* it asks again after its timeout */
	cs->all = p;
	p[cs->n++] = c;
}

void callers_reply(struct agent *a, struct callers *cs, const ProtobufCMessage *m)
{
	for (size_t i = 0; i < cs->n; i++)
		caller_reply(a, cs->all[i], m);
	free(cs->all);
	*cs = (struct callers){ 0 };
}

void callers_fail(struct agent *a, struct callers *cs, const struct edera_error *err)
{
	for (size_t i = 0; i < cs->n; i++)
		caller_fail(a, cs->all[i], err);
	free(cs->all);
	*cs = (struct callers){ 0 };
}

/* ---- the link ---- */

static void rpc_output(void *user, const uint8_t *data, size_t len)
{
	struct agent *a = user;

	link_send(a->link, data, len);
}

static const struct ttrpc_ops rpc_ops = { .output = rpc_output, .request = on_request };

static void on_output(void *user, const uint8_t *data, size_t len)
{
	struct agent *a = user;

	if (a->channel)
		channel_send(a->channel, data, len);
}

static void on_up(void *user)
{
	struct agent *a = user;

	ttrpc_conn_free(a->rpc);
	while (early) /* they come again */
		free_early(take_early());
	a->epoch++;
	a->rpc = ttrpc_conn_new(&rpc_ops, a);
}

static void on_message(void *user, const uint8_t *data, size_t len)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct agent *a = user;

	if (a->rpc && ttrpc_conn_feed(a->rpc, data, len, &err) < 0)
		log_warning(err.msg, NULL);
}

static const struct link_ops link_ops = { .output = on_output, .up = on_up, .message = on_message };

void service_feed(struct agent *a, const uint8_t *data, size_t len)
{
	link_feed(a->link, data, len);
}

bool service_writable(const struct agent *a)
{
	return !a->channel || channel_queued(a->channel) < QUEUE_HIGH;
}

int service_start(struct agent *a, struct edera_error *err)
{
	a->link = link_new(LINK_GUEST, &link_ops, a);
	if (!a->link)
		return err_set(err, -ENOMEM, "out of memory");
	return channel_new(a, a->channel_name, err) ? 0 : err->code;
}
