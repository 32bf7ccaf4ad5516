/* SPDX-License-Identifier: Apache-2.0 */
/* Talking to the zone agent through the channel a hypervisor plugin gives. */
#include "contract.h"
#include "agent/agent_client.h"

#include <stdio.h>

struct talk {
	uv_loop_t loop;
	uv_timer_t limit;
	struct agent_client *client;
	struct agent_reply *reply;
	struct edera_error *err;
	const char *method;
	const ProtobufCMessage *request;
	int result;
	bool lost_is_fine;
};

static void end(struct talk *t, int result)
{
	t->result = result;
	uv_stop(&t->loop);
}

static void on_limit(uv_timer_t *timer)
{
	struct talk *t = timer->data;

	end(t, err_set(t->err, -ETIMEDOUT, "the agent does not answer %s", t->method));
}

static void on_answer(void *user, const ProtobufCMessage *reply, const struct edera_error *err)
{
	struct talk *t = user;

	if (t->result != -EINPROGRESS)
		return; /* the client is being freed */
	if (reply && t->reply) {
		const Edera__Agent__V1__StatusReply *s = (const void *)reply;

		t->reply->instance = s->instance;
		snprintf(t->reply->kernel, sizeof t->reply->kernel, "%s", s->kernel_release);
	}
	end(t, err ? err_set(t->err, err->code, "%s", err->msg) : 0);
}

static void on_connected(struct agent_client *c, uint64_t instance, void *user)
{
}

static void on_lost(struct agent_client *c, const struct edera_error *why, void *user)
{
	struct talk *t = user;

	end(t, t->lost_is_fine ? 0 : err_set(t->err, -EPIPE, "the channel was lost: %s", why->msg));
}

static const struct agent_client_ops client_ops = { on_connected, on_lost };

static void close_handle(uv_handle_t *h, void *user)
{
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

/* One call on a connection of its own. */
static int talk(struct talk *t, int fd, int ms)
{
	t->result = -EINPROGRESS;
	uv_loop_init(&t->loop);
	uv_timer_init(&t->loop, &t->limit);
	t->limit.data = t;
	uv_timer_start(&t->limit, on_limit, (uint64_t)ms, 0);
	t->client = agent_client_new(&t->loop, &client_ops, t);
	if (!agent_client_attach(t->client, fd, t->err)) {
		agent_call(t->client, t->method, t->request, (uint64_t)ms, on_answer, t);
		uv_run(&t->loop, UV_RUN_DEFAULT);
	}
	agent_client_free(t->client);
	uv_walk(&t->loop, close_handle, NULL);
	uv_run(&t->loop, UV_RUN_DEFAULT);
	uv_loop_close(&t->loop);
	return t->result;
}

int agent_status(int fd, int ms, struct agent_reply *ret, struct edera_error *err)
{
	const Edera__Agent__V1__StatusRequest r = EDERA__AGENT__V1__STATUS_REQUEST__INIT;
	struct talk t = { .method = "Status", .request = &r.base, .reply = ret, .err = err };

	return talk(&t, fd, ms);
}

int agent_power_off(int fd, int ms, struct edera_error *err)
{
	const Edera__Agent__V1__ShutdownRequest r = EDERA__AGENT__V1__SHUTDOWN_REQUEST__INIT;
	struct talk t = { .method = "Shutdown", .request = &r.base, .err = err, .lost_is_fine = true };

	return talk(&t, fd, ms);
}
