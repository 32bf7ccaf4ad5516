/* SPDX-License-Identifier: Apache-2.0 */
/* Want of memory that the kernel does not end. There is no swap: when nearly all of a group's limit is held by what cannot be given
 * back, the text of its programs is what goes, and is read again at their next step. Each such turn is progress to the kernel, which
 * therefore kills nobody. (Nor does its pressure figure tell: what is read again counts there only if it had once been active.) */
#include "agent.h"

#include "base/log.h"
#include "workload.h"
#include <fcntl.h>
#include <unistd.h>

#define CHECK_MS 2000
#define CHECKS 3                /* so many in a row must find it so, */
#define ROW_MS 10000            /* with no more than this between two */
#define ROOM_PART 32            /* this part of a limit, and at least so much, is what files need to be kept in memory */
#define ROOM_MIN (4ull << 20)
#define FAULTS 20               /* by which a program waited for a file's page, between two checks */
#define TURNS 4                 /* how often what there is of files was read again between two checks */

struct pressure {
	struct agent *a;
	struct watch *events;
	uv_timer_t timer;
	struct strain all;
};

/* Held, nearly to the limit, by what only the end of a process gives back, while programs wait for their own pages: much reading or slow work is not like that. */
static bool strained(const char *dir, struct strain *s)
{
	uint64_t limit = cgroup_number(dir, "memory.max", NULL), room = limit / ROOM_PART, current, files, faults, refaults;
	uint64_t now = now_ms(), page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct strain before = *s;

	if (!limit) /* it has none */
		return false;
	if (room < ROOM_MIN)
		room = ROOM_MIN;
	current = cgroup_number(dir, "memory.current", NULL);
	files = cgroup_number(dir, "memory.stat", "active_file") + cgroup_number(dir, "memory.stat", "inactive_file");
	s->at_ms = now;
	s->faults = cgroup_number(dir, "memory.stat", "pgmajfault");
	s->refaults = cgroup_number(dir, "memory.stat", "workingset_refault_file");
	faults = s->faults - before.faults;
	refaults = s->refaults - before.refaults;
	if (now - before.at_ms > ROW_MS || current + room < limit || files > room || faults < FAULTS || refaults < TURNS * files / page ||
	    (cgroup_number(dir, "memory.stat", "anon") + cgroup_number(dir, "memory.stat", "shmem")) * 2 < limit)
		s->times = 0;
	else
		s->times++;
	return s->times >= CHECKS;
}

/* As the kernel weighs processes: what its end gives back, and oom_score_adj as thousandths of what there is. */
static struct workload *largest(struct agent *a)
{
	int64_t limit = (int64_t)cgroup_number(CGROUP_WORKLOADS, "memory.max", NULL), most = 0;
	struct workload *r = NULL;

	for (struct workload *w = workload_next(a, NULL); w; w = workload_next(a, w)) {
		int64_t score = (int64_t)cgroup_number(workload_cgroup(w), "memory.stat", "anon") + limit / 1000 * workload_oom_score_adj(w);

		if (!workload_running(w) || score <= most)
			continue;
		most = score;
		r = w;
	}
	return r;
}

static struct workload *choose(struct pressure *p)
{
	struct workload *victim = NULL;

	for (struct workload *w = workload_next(p->a, NULL); w; w = workload_next(p->a, w)) {
		if (!workload_running(w))
			continue;
		if (workload_oom(w)) /* the last one is not quite gone */
			return NULL;
		if (strained(workload_cgroup(w), workload_strain(w)))
			victim = w;
	}
	return strained(CGROUP_WORKLOADS, &p->all) && !victim ? largest(p->a) : victim;
}

static void check(uv_timer_t *t)
{
	struct pressure *p = t->data;
	struct workload *victim = choose(p);

	watch_events(p->events, UV_PRIORITIZED);
	if (!victim)
		return;
	p->all.times = 0;
	log_warning("killed a workload: no memory was left for the programs that run", "workload", workload_id(victim), NULL);
	workload_oom_kill(victim);
}

/* One of them has met its limit. From here on one look now and then is enough. */
static void on_limit(void *user, int events)
{
	struct pressure *p = user;
	char text[256];

	/* A change since the last reading is what is waited for. */
	if (pread(watch_fd(p->events), text, sizeof text, 0) < 0)
		log_warning("cannot read the memory events of the workloads", NULL);
	watch_events(p->events, 0);
	uv_timer_start(&p->timer, check, CHECK_MS, 0);
}

void pressure_watch(struct agent *a)
{
	int fd = open(CGROUP_WORKLOADS "/memory.events", O_RDONLY | O_CLOEXEC);
	static struct pressure p;

	if (fd < 0)
		return;
	p.a = a;
	p.events = watch_new(a, fd, on_limit, &p);
	if (!p.events)
		return;
	uv_timer_init(a->loop, &p.timer);
	p.timer.data = &p;
	on_limit(&p, 0);
}
