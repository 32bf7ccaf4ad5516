/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin contract suite: loads one plugin as the daemon would and holds its op tables to what the headers promise. */
#ifndef CONTRACT_H
#define CONTRACT_H

#include <stdbool.h>
#include <edera/hypervisor.h>
#include <edera/plugin.h>
#include "base/error.h"
#include "base/path.h"

struct options {
	const char *plugin;        /* the .so */
	const char *work;          /* empty directory, root's, traversable by all */
	const char *kernel, *initrd, *cmdline;
	const char *console_text;  /* what the guest prints once it runs */
	const char *power_off;     /* typed at the console then, makes the guest power off */
	const char *panic;         /* ... makes its kernel panic */
	const char *image, *missing, *silent; /* references: an image, one that is not there, one that is never answered */
	const char *archive;       /* file: the image as an archive */
	const char *const *expect; /* "name=image": variants that are offered; ends with NULL */
	bool unreachable;          /* what the variants come from does not answer */
	const char *conf;          /* daemon.toml for what the host adds to a plugin: [oci], [zone.kernel-variants]; or NULL */
	const char *foreign;       /* id of a VM of the same backend that is not the daemon's */
	bool agent;                /* the guest runs the zone agent */
	const char *only;          /* run only tests whose name matches this pattern */
	const char *const *sets;   /* "key=value" for the plugin's section, ends with NULL */
	int rounds;                /* how often timed operations are repeated */
};

/* host.c: the services a daemon gives, without a daemon. */
struct event {
	char id[40], detail[128];
	int what; /* enum edera_vm_event */
};
int host_open(const struct options *, const struct edera_plugin *, struct edera_error *);
const struct edera_host *host_services(void);
const struct edera_conf *host_conf(void);
bool host_wait_event(const char *id, int what, int ms, struct event *ret); /* events are kept: one seen earlier counts */
void host_forget_events(const char *id);

/* Checks. A failed one is printed with where it stands and the test ends. */
extern bool test_failed;
void check_failed(const char *file, int line, const char *what, const struct edera_error *);
#define CHECK(cond) do { if (!(cond)) { check_failed(__FILE__, __LINE__, #cond, NULL); return; } } while (0)
#define CHECK_ERR(cond, e) do { if (!(cond)) { check_failed(__FILE__, __LINE__, #cond, e); return; } } while (0)

struct test {
	const char *name;
	void (*run)(void);
	uint64_t caps; /* needs all of these */
};
/* Runs what the options and caps allow, prints a line each. */
void run_tests(const struct options *, const struct test *, size_t n, uint64_t caps);

/* agent.c: one call each, over a channel that is theirs then and closed. */
struct agent_reply {
	uint64_t instance;
	char kernel[128];
};
int agent_status(int fd, int ms, struct agent_reply *ret, struct edera_error *);
int agent_power_off(int fd, int ms, struct edera_error *);

/* store.c */
void test_image_store(const struct options *, const struct edera_provide *, void *inst);
/* In a process that is killed afterwards: is in the middle of a pull. */
int image_store_leave(const struct options *, const struct edera_provide *, void *inst);

/* variant_source.c */
void test_variant_source(const struct options *, const struct edera_provide *, void *inst);

/* hypervisor.c */
void test_hypervisor(const struct options *, const struct edera_provide *, void *inst);
/* In a process that is killed afterwards: makes and starts the VM `id`, prints READY, and waits. */
int hypervisor_leave_vm(const struct options *, const struct edera_provide *, void *inst, const char *id);

#endif
