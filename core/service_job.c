/* SPDX-License-Identifier: Apache-2.0 */
#include "service_job.h"

#include <stdlib.h>
#include <string.h>

struct service_job *service_job_begin(struct grpc_call *call, const struct worker_ops *ops)
{
	struct service_job *j = pb_xcalloc(1, sizeof *j);

	j->d = SERVICE_DAEMON(call);
	j->call = call;
	j->ops = ops;
	j->err = (struct edera_error)EDERA_ERROR_INIT;
	grpc_call_set_user(call, j);
	return j;
}

void service_job_submit(struct service_job *j, uint64_t timeout_ms) { j->job = worker_submit(j->d->workers, NULL, timeout_ms, j->ops, j); }

void service_job_closed(struct grpc_call *call)
{
	struct service_job *j = grpc_call_user(call);

	if (!j)
		return;
	j->call = NULL;
	if (!j->ended)
		worker_cancel(j->job);
}

bool service_job_end(struct service_job *j, bool abandoned)
{
	j->ended = true;
	if (!j->call)
		return false;
	grpc_call_set_user(j->call, NULL);
	if (abandoned)
		grpc_call_finish(j->call, RPC_DEADLINE_EXCEEDED, "the image store or variant source did not answer in time");
	else if (j->status)
		grpc_call_finish_error(j->call, &j->err);
	return !abandoned && !j->status;
}

void service_job_reply(void *user, bool abandoned)
{
	struct service_job *j = user;

	if (service_job_end(j, abandoned))
		grpc_call_reply(j->call, j->reply);
}

void service_job_release(void *user)
{
	struct service_job *j = user;

	pb_free(j->pull);
	pb_free(j->prune);
	pb_free(j->reply);
	free(j->reference);
	if (j->auth)
		explicit_bzero(j->auth, strlen(j->auth));
	free(j->auth);
	buf_free(&j->manifest);
	buf_free(&j->config);
	free(j);
}

char *service_copy(const char *s)
{
	char *p = (char *)protobuf_c_empty_string;

	pb_set(&p, s);
	return p;
}
