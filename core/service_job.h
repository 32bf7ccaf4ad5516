/* SPDX-License-Identifier: Apache-2.0 */
/* A request that is worked on by a worker and answered from the loop. */
#ifndef CORE_SERVICE_JOB_H
#define CORE_SERVICE_JOB_H

#include "images.h"
#include "service.h"

#define SERVICE_QUERY_TIMEOUT_MS 120000

struct service_job {
	struct daemon *d;
	struct grpc_call *call; /* NULL once the client has gone */
	struct worker_job *job;
	const struct worker_ops *ops;
	int status;             /* of the work: 0, or what err says */
	struct edera_error err;
	bool ended;
	ProtobufCMessage *reply; /* made by the work; freed with the job */
	/* What the work is about; each kind of request uses some. */
	PB(PullImageRequest) *pull;
	char *reference, *auth;
	char digest[EDERA_DIGEST_MAX];
	uint32_t format, flags;
	struct buf manifest, config;
	Edera__Node__V1__PruneImagesRequest *prune;
	bool removed;
};

struct service_job *service_job_begin(struct grpc_call *, const struct worker_ops *);
void service_job_submit(struct service_job *, uint64_t timeout_ms);
/* First thing in `done`. True where the answer is to be given; failures have been sent. */
bool service_job_end(struct service_job *, bool abandoned);
/* A `done` for jobs whose work has made the reply, and the `release` of all. */
void service_job_reply(void *job, bool abandoned);
void service_job_release(void *job);
/* service_pull.c: what a store says of a pull, as a message. */
PB(OciImageProgress) *service_image_progress(const struct edera_pull_progress *);
char *service_copy(const char *); /* for a message's string field */

#endif
