/* SPDX-License-Identifier: Apache-2.0 */
/* A child subreaper collects what detached from its starter, and leaves to others what they will wait for. */
#include <CUnit/Basic.h>

#include "base/reap.h"
#include "base/spawn.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const char *script, pid_t *ret_pid)
{
	const char *argv[] = { "/bin/sh", "-c", script, NULL };
	struct edera_spawn s = { .size = sizeof s, .argv = argv };
	int pidfd = -1;

	CU_ASSERT_EQUAL_FATAL(spawn(&s, &pidfd, ret_pid, NULL), 0);
	return pidfd;
}

static int reap_within(int ms)
{
	int n = 0;

	for (int i = 0; i < ms && !n; i++) {
		usleep(1000);
		n = reap_orphans();
	}
	return n;
}

/* The shell in between leads the session, starts sleep, and is gone before it. */
static void adopted(void)
{
	int status = -1, pidfd;
	pid_t pid;

	pidfd = run("setsid sh -c 'sleep 0.1 & exit 0'", &pid);
	CU_ASSERT_EQUAL(spawn_wait(pidfd, pid, NULL, &status, NULL), 0);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(reap_orphans(), 0); /* it still runs */
	CU_ASSERT_EQUAL(reap_within(3000), 1);
	CU_ASSERT_EQUAL(reap_orphans(), 0);
}

static void own_children(void)
{
	static const char *const scripts[] = { "exit 3", "exec setsid -f true; exit 3" };

	for (int i = 0; i < 2; i++) {
		int status = -1, pidfd;
		pid_t pid;

		pidfd = run(scripts[i], &pid);
		CU_ASSERT_EQUAL(poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, 3000), 1);
		reap_orphans();
		CU_ASSERT_EQUAL(spawn_wait(pidfd, pid, NULL, &status, NULL), 0);
		CU_ASSERT_EQUAL(status, i == 0 ? 3 : 0);
	}
}

/* A child that makes a session of its own is still the one that its starter waits for. */
static void own_session_leader(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		_exit(7);
	}
	usleep(50000);
	CU_ASSERT_EQUAL(reap_orphans(), 0);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(WEXITSTATUS(status), 7);
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "adopted", adopted }, { "own children", own_children }, { "own session leader", own_session_leader }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "reaping", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed ? 1 : 0;
}
