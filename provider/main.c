/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"
#include "interrupt.h"
#include "packer.h"

#include <fcntl.h>
#include <locale.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Used by the daemon with descriptors, it is the worker at once; by hand it is the front of one. */
static bool is_worker(const struct options *o) { return o->worker || o->output_fd >= 0 || (o->verb != VERB_PULL && (o->auth_fd >= 0 || o->content_fd >= 0 || o->ca_fd >= 0 || o->cert_fd >= 0)); }

/* No file of ours may come to stand where output goes. Writing there fails as it would if it were closed. */
static void occupy_standard_descriptors(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", O_RDONLY);
}

int main(int argc, char **argv)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct options o;
	int r;

	if (argc > 1 && !strcmp(argv[1], PACKER_WORD))
		return packer_main(argv + 2);
	occupy_standard_descriptors();
	r = options_parse(argc, argv, &o, &err);
	if (r == 1)
		return 0;
	if (r) {
		fprintf(stderr, "protect-oci-provider: %s\n", err.msg);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	if (!is_worker(&o)) {
		interrupt_catch();
		return front_main(&o, argc, argv);
	}
	if (o.worker) {
		/* Part of the caller's job, as the terminal sees it: Ctrl+C and Ctrl+Z are for both. */
		setpgid(0, getpgid(getppid()));
		if (o.verb == VERB_PULL)
			interrupt_catch();
	}
	/* The output is ours only as long as whoever asked for it is there. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Work that nobody talks to: threads that wake each other need not interrupt each other too. A pull is faster for it, and who else runs
	 * on the machine is disturbed less. */
	sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 });
	/* Few arenas and no returning of memory piece by piece: many threads pass buffers along. */
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	return worker_main(&o);
}
