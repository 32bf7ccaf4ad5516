/* SPDX-License-Identifier: Apache-2.0 */
#include "base/reap.h"
#include "base/cleanup.h"

#include <sys/types.h>
#include <sys/wait.h>

/* Children this process forked are in its own session, or lead one of their own if they called setsid() themselves. What detached
 * by setsid() and a second fork is in the session of a process that is gone. */
static int reap_if_adopted(pid_t pid, pid_t own_session)
{
	pid_t session = getsid(pid);
	siginfo_t si = { 0 };

	if (session < 0 || session == own_session || session == pid)
		return 0;
	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG) == 0 && si.si_pid == pid;
}

int reap_orphans(void)
{
	_closedir_ DIR *tasks = opendir("/proc/self/task");
	pid_t own_session = getsid(0);
	struct dirent *e;
	int n = 0;

	while (tasks && (e = readdir(tasks))) {
		char path[sizeof "/proc/self/task//children" + sizeof e->d_name];
		_fclose_ FILE *f = NULL;
		int pid;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/children", e->d_name);
		f = fopen(path, "re");
		while (f && fscanf(f, "%d", &pid) == 1)
			n += reap_if_adopted(pid, own_session);
	}
	return n;
}
