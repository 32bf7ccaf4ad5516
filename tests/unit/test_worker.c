/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <CUnit/Basic.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct job {
	int number, status;
	unsigned sleep_ms;
	bool until_cancelled;
	bool done, abandoned, released;
};

static uv_loop_t loop;
static struct worker_pool *pool;
static int order[64], n_order;
static atomic_int running, most_running;

static void work(void *user, const struct edera_call *call)
{
	struct job *j = user;
	int now = ++running;

	if (now > most_running)
		most_running = now;
	if (j->until_cancelled) {
		struct pollfd p = { .fd = call->cancel_fd, .events = POLLIN };

		j->status = poll(&p, 1, 5000) == 1 ? -ECANCELED : 0;
	} else {
		usleep(j->sleep_ms * 1000);
	}
	--running;
}

static void done(void *user, bool abandoned)
{
	struct job *j = user;

	CU_ASSERT_FALSE(j->done);
	j->done = true;
	j->abandoned = abandoned;
	order[n_order++] = j->number;
}

static void release(void *user) { ((struct job *)user)->released = true; }

static const struct worker_ops ops = { work, done, release };

static void run_until(const bool *flag)
{
	for (int i = 0; i < 2000 && !*flag; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
}

static void queue_is_serial(void)
{
	struct job jobs[8] = { 0 };
	struct worker_queue *q = worker_queue_new(pool);

	n_order = 0;
	most_running = 0;
	for (int i = 0; i < 8; i++) {
		jobs[i] = (struct job){ .number = i, .sleep_ms = i % 2 ? 1 : 10 };
		worker_submit(pool, q, 0, &ops, &jobs[i]);
	}
	worker_queue_free(q);
	run_until(&jobs[7].released);
	CU_ASSERT_EQUAL(most_running, 1);
	for (int i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(order[i], i);
}

static void free_jobs_run_together(void)
{
	struct job jobs[8] = { 0 };

	most_running = 0;
	n_order = 0;
	for (int i = 0; i < 8; i++) {
		jobs[i].sleep_ms = 60;
		worker_submit(pool, NULL, 0, &ops, &jobs[i]);
	}
	for (int i = 0; i < 8; i++)
		run_until(&jobs[i].released);
	CU_ASSERT_EQUAL(most_running, 8);
}

static void cancel_reaches_the_job(void)
{
	struct job j = { .until_cancelled = true };

	n_order = 0;
	worker_cancel(worker_submit(pool, NULL, 0, &ops, &j));
	run_until(&j.released);
	CU_ASSERT_TRUE(j.done && !j.abandoned);
	CU_ASSERT_EQUAL(j.status, -ECANCELED);
}

static void hung_job_is_abandoned_and_its_queue_goes_on(void)
{
	struct job hung = { .number = 1, .sleep_ms = 8000 }, after = { .number = 2 };
	struct worker_queue *q = worker_queue_new(pool);

	n_order = 0;
	worker_submit(pool, q, 10, &ops, &hung);
	worker_submit(pool, q, 0, &ops, &after);
	worker_queue_free(q);
	for (int i = 0; i < 9000 && !after.released; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	CU_ASSERT_TRUE(hung.abandoned);
	CU_ASSERT_FALSE(hung.released);
	CU_ASSERT_TRUE(after.done && !after.abandoned);
	for (int i = 0; i < 9000 && !hung.released; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	CU_ASSERT_TRUE(hung.released);
}

static void count(void *user) { ++*(int *)user; }

static void posts_arrive(void)
{
	int n = 0;

	for (int i = 0; i < 100; i++)
		worker_post(pool, count, &n);
	uv_run(&loop, UV_RUN_NOWAIT);
	CU_ASSERT_EQUAL(n, 100);
}

int main(void)
{
	CU_pSuite s;
	unsigned failed;

	uv_loop_init(&loop);
	pool = worker_pool_new(&loop, 16, NULL);
	CU_initialize_registry();
	s = CU_add_suite("worker", NULL, NULL);
	CU_add_test(s, "a queue is serial and in order", queue_is_serial);
	CU_add_test(s, "jobs without a queue run together", free_jobs_run_together);
	CU_add_test(s, "cancel reaches the job", cancel_reaches_the_job);
	CU_add_test(s, "a hung job is abandoned and its queue goes on", hung_job_is_abandoned_and_its_queue_goes_on);
	CU_add_test(s, "posts arrive", posts_arrive);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	worker_pool_free(pool, 3000);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	return failed ? 1 : 0;
}
