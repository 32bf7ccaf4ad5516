/* SPDX-License-Identifier: Apache-2.0 */
/* Host services for plugins under test: the same promises as the daemon's, on one poll loop thread. */
#include "contract.h"
#include "conf/conf.h"
#include "oci.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/reap.h"
#include "base/spawn.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define MAX_WATCHES 128
#define MAX_EVENTS 4096
#define MAX_KEYS 64

struct watch {
	uint64_t id; /* 0 = free */
	int fd;      /* -1 = timer */
	short events;
	int64_t at_ns, repeat_ns;
	void (*cb)(void *user, uint32_t events);
	void *user;
};

struct conf_value {
	const struct edera_conf_key *key;
	const char *value; /* as text; a list is one item */
};

static struct {
	struct edera_host services;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t loop;
	int wake, sigchld;
	struct watch watches[MAX_WATCHES];
	uint64_t next_id;
	struct event events[MAX_EVENTS];
	size_t n_events;
	struct conf_value conf[MAX_KEYS];
	size_t n_conf;
	struct conf *daemon; /* what the core adds, from --conf */
	char data[PATH_CAP], run[PATH_CAP], cache[PATH_CAP];
} H = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Collects what to poll; the timeout until the next timer in ms. */
static int collect(struct pollfd *pf, uint64_t *ids, nfds_t *n)
{
	int64_t next = INT64_MAX, now = now_ns();

	*n = 2;
	for (size_t i = 0; i < MAX_WATCHES; i++) {
		struct watch *w = &H.watches[i];

		if (!w->id)
			continue;
		if (w->fd < 0) {
			next = w->at_ns < next ? w->at_ns : next;
		} else {
			pf[*n] = (struct pollfd){ .fd = w->fd, .events = w->events };
			ids[(*n)++] = w->id;
		}
	}
	return next == INT64_MAX ? -1 : next <= now ? 0 : (int)((next - now) / 1000000) + 1;
}

/* The watch may be gone by now: another callback can have ended it. */
static void fire(uint64_t id, uint32_t events)
{
	struct watch *w, copy = { 0 };

	pthread_mutex_lock(&H.lock);
	for (w = H.watches; w < H.watches + MAX_WATCHES; w++)
		if (w->id == id) {
			copy = *w;
			if (w->fd < 0 && w->repeat_ns)
				w->at_ns += w->repeat_ns;
			else if (w->fd < 0)
				w->id = 0;
			break;
		}
	pthread_mutex_unlock(&H.lock);
	if (copy.id)
		copy.cb(copy.user, events);
}

static void fire_timers(void)
{
	int64_t now = now_ns();

	for (size_t i = 0; i < MAX_WATCHES; i++) {
		uint64_t due;

		pthread_mutex_lock(&H.lock);
		due = H.watches[i].fd < 0 && H.watches[i].at_ns <= now ? H.watches[i].id : 0;
		pthread_mutex_unlock(&H.lock);
		if (due)
			fire(due, 0);
	}
}

static void *loop(void *arg)
{
	struct signalfd_siginfo si;
	uint64_t count;

	for (;;) {
		struct pollfd pf[MAX_WATCHES + 2] = { { .fd = H.wake, .events = POLLIN }, { .fd = H.sigchld, .events = POLLIN } };
		uint64_t ids[MAX_WATCHES + 2];
		nfds_t n;
		int ms;

		pthread_mutex_lock(&H.lock);
		ms = collect(pf, ids, &n);
		pthread_mutex_unlock(&H.lock);
		if (poll(pf, n, ms) < 0)
			continue;
		if (pf[0].revents && read(H.wake, &count, sizeof count) < 0)
			continue;
		if (pf[1].revents && read(H.sigchld, &si, sizeof si) > 0)
			reap_orphans();
		for (nfds_t i = 2; i < n; i++)
			if (pf[i].revents)
				fire(ids[i], (uint32_t)pf[i].revents);
		fire_timers();
	}
	return arg;
}

static int add_watch(struct watch w, uint64_t *ret_id)
{
	uint64_t one = 1;
	int r = -ENOSPC;

	pthread_mutex_lock(&H.lock);
	for (size_t i = 0; i < MAX_WATCHES && r; i++)
		if (!H.watches[i].id) {
			w.id = *ret_id = ++H.next_id;
			H.watches[i] = w;
			r = 0;
		}
	pthread_mutex_unlock(&H.lock);
	return !r && write(H.wake, &one, sizeof one) < 0 ? -errno : r;
}

static int host_watch_fd(void *core, int fd, uint32_t events, void (*cb)(void *, uint32_t), void *user, uint64_t *ret_id)
{
	return add_watch((struct watch){ .fd = fd, .events = (short)events, .cb = cb, .user = user }, ret_id);
}

static int host_timer(void *core, uint64_t after_ms, uint64_t repeat_ms, void (*cb)(void *, uint32_t), void *user, uint64_t *ret_id)
{
	return add_watch((struct watch){ .fd = -1, .at_ns = now_ns() + (int64_t)after_ms * 1000000,
	                                 .repeat_ns = (int64_t)repeat_ms * 1000000, .cb = cb, .user = user }, ret_id);
}

static int host_unwatch(void *core, uint64_t id)
{
	int r = -ENOENT;

	pthread_mutex_lock(&H.lock);
	for (size_t i = 0; i < MAX_WATCHES; i++)
		if (id && H.watches[i].id == id) {
			H.watches[i].id = 0;
			r = 0;
		}
	pthread_mutex_unlock(&H.lock);
	return r;
}

static void host_log(void *core, int priority, const char *message)
{
	log_format(priority, "%s", message);
}

static const char *conf_text(const char *key)
{
	for (size_t i = 0; i < H.n_conf; i++)
		if (!strcmp(H.conf[i].key->name, key))
			return H.conf[i].value;
	fprintf(stderr, "the plugin reads the key '%s', which it does not declare\n", key);
	abort();
}

static const char *host_conf_str(const struct edera_conf *c, const char *key) { return conf_text(key); }
static int64_t host_conf_int(const struct edera_conf *c, const char *key) { return strtoll(conf_text(key), NULL, 10); }
static int host_conf_bool(const struct edera_conf *c, const char *key) { return !strcmp(conf_text(key), "true"); }

static size_t host_conf_list(const struct edera_conf *c, const char *key, const char *const **ret)
{
	conf_text(key);
	for (size_t i = 0; i < H.n_conf; i++)
		if (!strcmp(H.conf[i].key->name, key) && *H.conf[i].value && *H.conf[i].value != '{') {
			*ret = &H.conf[i].value;
			return 1;
		}
	*ret = NULL;
	return 0;
}

static int host_conf_each(void *core, const char *section, int (*cb)(void *, const char *, const char *), void *user)
{
	return conf_each(H.daemon, section, cb, user);
}

static const char *host_path(void *core, enum edera_path which)
{
	return which == EDERA_PATH_RUN ? H.run : which == EDERA_PATH_DATA ? H.data : H.cache;
}

static int host_spawn(void *core, const struct edera_spawn *s, int *ret_pidfd, struct edera_error *err)
{
	return spawn(s, ret_pidfd, NULL, err);
}

static void host_vm_event(void *core, const char *id, enum edera_vm_event what, const char *detail)
{
	pthread_mutex_lock(&H.lock);
	if (H.n_events < MAX_EVENTS) {
		struct event *e = &H.events[H.n_events++];

		snprintf(e->id, sizeof e->id, "%s", id);
		snprintf(e->detail, sizeof e->detail, "%s", detail ? detail : "");
		e->what = (int)what;
	}
	pthread_cond_broadcast(&H.changed);
	pthread_mutex_unlock(&H.lock);
}

static int host_oci_run(void *core, const struct edera_call *call, const struct edera_oci_run *run, struct edera_error *err)
{
	return oci_run(H.daemon, H.data, call, run, err);
}

bool host_wait_event(const char *id, int what, int ms, struct event *ret)
{
	struct timespec until;
	bool found = false;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000l;
	if (until.tv_nsec >= 1000000000l) {
		until.tv_nsec -= 1000000000l;
		until.tv_sec++;
	}
	pthread_mutex_lock(&H.lock);
	for (;;) {
		for (size_t i = 0; i < H.n_events && !found; i++)
			if (!strcmp(H.events[i].id, id) && H.events[i].what == what) {
				found = true;
				if (ret)
					*ret = H.events[i];
			}
		if (found || pthread_cond_timedwait(&H.changed, &H.lock, &until) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&H.lock);
	return found;
}

void host_forget_events(const char *id)
{
	pthread_mutex_lock(&H.lock);
	for (size_t i = 0; i < H.n_events; i++)
		if (!strcmp(H.events[i].id, id))
			H.events[i].id[0] = 0;
	pthread_mutex_unlock(&H.lock);
}

/* Defaults are in the syntax of daemon.conf; strings there may be quoted. */
static int set_conf(const struct options *o, const struct edera_plugin *p, struct edera_error *err)
{
	for (const struct edera_conf_key *k = p->conf; k && k->name; k++) {
		if (H.n_conf == MAX_KEYS)
			return err_set(err, -E2BIG, "the plugin declares more than %d keys", MAX_KEYS);
		H.conf[H.n_conf++] = (struct conf_value){ k, k->def ? k->def : "" };
	}
	for (const char *const *s = o->sets; s && *s; s++) {
		const char *eq = strchr(*s, '=');
		bool found = false;

		for (size_t i = 0; eq && i < H.n_conf; i++)
			if (strlen(H.conf[i].key->name) == (size_t)(eq - *s) && !strncmp(H.conf[i].key->name, *s, (size_t)(eq - *s))) {
				H.conf[i].value = eq + 1;
				found = true;
			}
		if (!found)
			return err_set(err, -EINVAL, "the plugin has no key for '%s'", *s);
	}
	return 0;
}

const struct edera_host *host_services(void) { return &H.services; }
const struct edera_conf *host_conf(void) { return (const struct edera_conf *)&H.conf; }

int host_open(const struct options *o, const struct edera_plugin *p, struct edera_error *err)
{
	pthread_condattr_t attr;
	sigset_t set;
	int r = set_conf(o, p, err);

	if (!r)
		r = conf_load(o->conf, NULL, 0, &H.daemon, err);
	if (!r)
		r = path_format(H.data, err, "%s/data", o->work);
	if (!r)
		r = path_format(H.run, err, "%s/run", o->work);
	if (!r)
		r = path_format(H.cache, err, "%s/data/cache", o->work);
	if (!r)
		r = path_mkdirs(H.data, 0711, err);
	if (!r)
		r = path_mkdirs(H.run, 0711, err);
	if (!r)
		r = path_mkdirs(H.cache, 0711, err);
	if (r)
		return r;
	H.services = (struct edera_host){
		.size = sizeof H.services, .abi_major = EDERA_ABI_MAJOR, .abi_minor = EDERA_ABI_MINOR, .core = &H,
		.log = host_log, .conf_str = host_conf_str, .conf_int = host_conf_int, .conf_bool = host_conf_bool,
		.conf_list = host_conf_list, .conf_each = host_conf_each, .path = host_path, .watch_fd = host_watch_fd,
		.timer = host_timer, .unwatch = host_unwatch, .spawn = host_spawn, .vm_event = host_vm_event, .oci_run = host_oci_run,
	};
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&H.changed, &attr);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	H.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	H.sigchld = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	r = pthread_create(&H.loop, NULL, loop, NULL);
	return r ? err_errno(err, -r, "cannot start the loop") : 0;
}
