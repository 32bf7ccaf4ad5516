/* SPDX-License-Identifier: Apache-2.0 */
/* contract PLUGIN.so --work DIR [OPTION...]
 * Runs the suite of each kind that the plugin provides; the last line is "N passed, N failed, N skipped". */
#include "contract.h"
#include "base/cleanup.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool test_failed;
static int n_passed, n_failed, n_skipped;

void check_failed(const char *file, int line, const char *what, const struct edera_error *err)
{
	const char *base = strrchr(file, '/');

	test_failed = true;
	printf("    %s:%d: not so: %s%s%s\n", base ? base + 1 : file, line, what, err && err->msg[0] ? "; error: " : "", err ? err->msg : "");
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void run_tests(const struct options *o, const struct test *tests, size_t n, uint64_t caps)
{
	for (size_t i = 0; i < n; i++) {
		double start = seconds();

		if (o->only && fnmatch(o->only, tests[i].name, 0))
			continue;
		if ((tests[i].caps & caps) != tests[i].caps) {
			n_skipped++;
			printf("SKIP %s (not claimed)\n", tests[i].name);
			continue;
		}
		test_failed = false;
		tests[i].run();
		printf("%s %s %.3f s\n", test_failed ? "FAIL" : "PASS", tests[i].name, seconds() - start);
		fflush(stdout);
		*(test_failed ? &n_failed : &n_passed) += 1;
	}
}

static int load(const char *path, const struct edera_plugin **ret)
{
	char absolute[PATH_CAP];
	void *so = realpath(path, absolute) ? dlopen(absolute, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
	const struct edera_plugin *p = so ? dlsym(so, EDERA_PLUGIN_SYMBOL) : NULL;

	if (!p || p->magic != EDERA_PLUGIN_MAGIC || p->abi_major != EDERA_ABI_MAJOR) {
		fprintf(stderr, "contract: '%s' is no plugin of ABI %d: %s\n", path, EDERA_ABI_MAJOR, so ? "no valid descriptor" : dlerror());
		return -EINVAL;
	}
	*ret = p;
	return 0;
}

static const struct edera_provide *provided(const struct edera_plugin *p, uint32_t kind)
{
	for (const struct edera_provide *v = p->provides; v && v->kind; v++)
		if (v->kind == kind)
			return v;
	return NULL;
}

/* The order of the daemon: probe, init, start. */
static int bring_up(const struct options *o, const struct edera_plugin *p, void **inst, struct edera_error *err)
{
	int r = host_open(o, p, err);

	if (!r && p->probe)
		r = p->probe(host_services(), host_conf(), err);
	if (!r)
		r = p->init(host_services(), host_conf(), inst, err);
	if (!r && p->start)
		r = p->start(*inst, err);
	return r;
}

static void take_down(const struct edera_plugin *p, void *inst)
{
	if (p->stop)
		p->stop(inst);
	if (p->fini)
		p->fini(inst);
}

static int usage(void)
{
	fprintf(stderr, "usage: contract PLUGIN.so --work DIR [--set KEY=VALUE]... [--kernel FILE] [--initrd FILE] [--cmdline TEXT]\n"
	                "                [--console-text TEXT] [--power-off TEXT] [--panic TEXT] [--agent] [--foreign ID] [--only PATTERN] [--rounds N]\n"
	                "                [--conf FILE] [--image REF] [--missing REF] [--silent REF] [--archive FILE] [--expect NAME=IMAGE]... [--unreachable]\n");
	return 2;
}

static const struct option long_options[] = {
	{ "work", 1, NULL, 'w' }, { "set", 1, NULL, 's' }, { "kernel", 1, NULL, 'k' }, { "initrd", 1, NULL, 'i' }, { "cmdline", 1, NULL, 'c' },
	{ "console-text", 1, NULL, 't' }, { "power-off", 1, NULL, 'p' }, { "agent", 0, NULL, 'a' },
	{ "foreign", 1, NULL, 'f' }, { "panic", 1, NULL, 'n' }, { "only", 1, NULL, 'o' }, { "rounds", 1, NULL, 'r' }, { "leave", 1, NULL, 'l' },
	{ "take-down", 0, NULL, 'd' }, { "conf", 1, NULL, 'C' }, { "image", 1, NULL, 'I' }, { "missing", 1, NULL, 'M' }, { "silent", 1, NULL, 'S' },
	{ "archive", 1, NULL, 'A' }, { "expect", 1, NULL, 'E' }, { "unreachable", 0, NULL, 'U' }, { 0 },
};

int main(int argc, char **argv)
{
	struct options o = { .kernel = "/dev/null", .initrd = "/dev/null", .cmdline = "", .rounds = 5 };
	struct edera_error err = EDERA_ERROR_INIT;
	const char *sets[33] = { NULL }, *expect[33] = { NULL }, *leave = NULL;
	const struct edera_plugin *p;
	const struct edera_provide *hv, *images, *variants;
	bool down_first = false;
	void *inst = NULL;
	size_t n_sets = 0, n_expect = 0;
	int c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		switch (c) {
		case 'w': o.work = optarg; break;
		case 's': if (n_sets < 32) sets[n_sets++] = optarg; break;
		case 'k': o.kernel = optarg; break;
		case 'i': o.initrd = optarg; break;
		case 'c': o.cmdline = optarg; break;
		case 't': o.console_text = optarg; break;
		case 'p': o.power_off = optarg; break;
		case 'a': o.agent = true; break;
		case 'n': o.panic = optarg; break;
		case 'f': o.foreign = optarg; break;
		case 'o': o.only = optarg; break;
		case 'r': o.rounds = atoi(optarg); break;
		case 'l': leave = optarg; break;
		case 'd': down_first = true; break;
		case 'C': o.conf = optarg; break;
		case 'I': o.image = optarg; break;
		case 'M': o.missing = optarg; break;
		case 'S': o.silent = optarg; break;
		case 'A': o.archive = optarg; break;
		case 'E': if (n_expect < 32) expect[n_expect++] = optarg; break;
		case 'U': o.unreachable = true; break;
		default: return usage();
		}
	if (optind + 1 != argc || !o.work)
		return usage();
	o.plugin = argv[optind];
	o.sets = sets;
	o.expect = expect;
	if (load(o.plugin, &p) || bring_up(&o, p, &inst, &err)) {
		fprintf(stderr, "contract: the plugin does not start: %s\n", err.msg);
		return 1;
	}
	hv = provided(p, EDERA_KIND_HYPERVISOR);
	images = provided(p, EDERA_KIND_IMAGE_STORE);
	variants = provided(p, EDERA_KIND_VARIANT_SOURCE);
	if (leave) {
		if (hv ? hypervisor_leave_vm(&o, hv, inst, leave) : !images || image_store_leave(&o, images, inst))
			return 1;
		if (down_first)
			take_down(p, inst);
		printf("READY\n");
		return down_first ? 0 : pause();
	}
	if (hv)
		test_hypervisor(&o, hv, inst);
	if (images)
		test_image_store(&o, images, inst);
	if (variants)
		test_variant_source(&o, variants, inst);
	take_down(p, inst);
	printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
	return n_failed ? 1 : 0;
}
