/* SPDX-License-Identifier: Apache-2.0 */
/* Images that nobody needs: listed on a worker, judged on the loop (what is in use changes there), removed on a worker. */
#include "service_image.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int add_layers(void *user, const struct edera_image_info *i)
{
	if (i->size >= offsetof(struct edera_image_info, layers_bytes) + sizeof i->layers_bytes)
		*(uint64_t *)user += i->layers_bytes;
	return 0;
}

/* What layers take. A pull that adds some at the same time makes it look as if less was freed, which does no harm. */
static uint64_t layers_total(struct daemon *d, const struct edera_call *call)
{
	uint64_t sum = 0;

	images_list(d->plugins, call, add_layers, &sum, NULL);
	return sum;
}

static void prune_remove_work(void *user, const struct edera_call *call)
{
	struct service_job *j = user;
	Edera__Node__V1__PruneImagesReply *reply = (Edera__Node__V1__PruneImagesReply *)j->reply;
	uint64_t before = layers_total(j->d, call), after;
	size_t kept = 0;

	reply->freed = 0;
	for (size_t i = 0; i < reply->n_removed; i++) {
		bool removed = false;

		if (!j->status)
			j->status = images_remove(j->d->plugins, call, reply->removed[i]->digest, service_image_format(reply->removed[i]->format), &removed, &j->err);
		if (j->status == -EBUSY)
			j->status = 0; /* being pulled again: it stays */
		if (removed) {
			reply->freed += reply->removed[i]->bytes;
			reply->removed[kept++] = reply->removed[i];
		} else {
			pb_free(reply->removed[i]);
		}
	}
	reply->n_removed = kept;
	after = layers_total(j->d, call);
	reply->freed += before > after ? before - after : 0;
}

static const struct worker_ops prune_remove_ops = { prune_remove_work, service_job_reply, service_job_release };

static bool is_named(const Edera__Node__V1__PruneImagesRequest *q, const Edera__Node__V1__Image *i)
{
	for (size_t k = 0; k < q->n_keep_names; k++) {
		if (!fnmatch(q->keep_names[k], i->digest, 0))
			return true;
		for (size_t n = 0; n < i->n_names; n++)
			if (!fnmatch(q->keep_names[k], i->names[n], 0))
				return true;
	}
	return false;
}

static bool may_go(const Edera__Node__V1__PruneImagesRequest *q, const Edera__Node__V1__Image *i, time_t now)
{
	bool old = !q->keep_newer_than || now - i->created >= (int64_t)q->keep_newer_than;

	return !i->in_use && old && (q->all || i->n_names == 0) && !is_named(q, i);
}

static int newest_first(const void *a, const void *b)
{
	const Edera__Node__V1__Image *x = *(Edera__Node__V1__Image *const *)a, *y = *(Edera__Node__V1__Image *const *)b;

	return x->created != y->created ? (x->created < y->created ? 1 : -1) : strcmp(x->digest, y->digest);
}

static uint64_t on_disk(const Edera__Node__V1__Image *i) { return i->bytes + i->layers_bytes; }

/* Takes those that stay because they are the newest out of what may go; ones that went over the room let none behind them in. */
static size_t keep_newest(const Edera__Node__V1__PruneImagesRequest *q, Edera__Node__V1__Image **images, size_t n)
{
	uint64_t bytes = 0;
	size_t stay = 0;

	qsort(images, n, sizeof *images, newest_first);
	for (; stay < n && (stay < q->keep_count || bytes + on_disk(images[stay]) <= q->keep_bytes); stay++) {
		bytes += on_disk(images[stay]);
		pb_free(images[stay]);
	}
	memmove(images, images + stay, (n - stay) * sizeof *images);
	return n - stay;
}

/* What is to go, as a PruneImagesReply. */
static Edera__Node__V1__PruneImagesReply *judge(const Edera__Node__V1__PruneImagesRequest *q, const Edera__Node__V1__ListImagesReply *list)
{
	Edera__Node__V1__PruneImagesReply *reply = pb_xcalloc(1, sizeof *reply);
	time_t now = time(NULL);

	edera__node__v1__prune_images_reply__init(reply);
	reply->removed = pb_xcalloc(list->n_images + 1, sizeof *reply->removed);
	for (size_t i = 0; i < list->n_images; i++)
		if (may_go(q, list->images[i], now))
			reply->removed[reply->n_removed++] = pb_copy(list->images[i]);
	reply->n_removed = keep_newest(q, reply->removed, reply->n_removed);
	for (size_t i = 0; i < reply->n_removed; i++)
		reply->freed += on_disk(reply->removed[i]);
	return reply;
}

static void prune_listed(void *user, bool abandoned)
{
	struct service_job *j = user, *next;
	Edera__Node__V1__PruneImagesReply *reply;
	Edera__Node__V1__ListImagesReply *list;
	struct grpc_call *call = j->call;

	if (!service_job_end(j, abandoned))
		return;
	list = (Edera__Node__V1__ListImagesReply *)j->reply;
	service_image_mark_used(j->d, list);
	reply = judge(j->prune, list);
	if (j->prune->dry_run) {
		grpc_call_reply(call, &reply->base);
		pb_free(reply);
		return;
	}
	next = service_job_begin(call, &prune_remove_ops);
	next->reply = &reply->base;
	service_job_submit(next, SERVICE_QUERY_TIMEOUT_MS);
}

static const struct worker_ops prune_list_ops = { service_image_list_work, prune_listed, service_job_release };

void service_node_prune_images(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct service_job *j = service_job_begin(call, &prune_list_ops);

	j->prune = pb_copy(m);
	service_job_submit(j, SERVICE_QUERY_TIMEOUT_MS);
}
