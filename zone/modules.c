/* SPDX-License-Identifier: Apache-2.0 */
/* Modules the kernel image brings along in the initrd, because the disk with the others cannot be reached without them. */
#include "agent.h"

#include "base/cleanup.h"
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EARLY "/edera/early"

static void load(struct agent *a, const char *name)
{
	char path[PATH_CAP];
	_close_ int fd = -1;

	if (strstr(name, "..") || path_format(path, NULL, EARLY "/%s", name))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		agent_warn(a, "cannot load the kernel module '%s': %s", path, strerror(errno));
}

unsigned modules_load_early(struct agent *a, unsigned first, const char *until)
{
	_buf_ struct buf list = BUF_INIT;
	char *save = NULL;
	unsigned n = 0;

	if (path_read_file(EARLY "/modules.list", 1 << 20, &list, NULL) || !list.data)
		return 0; /* a kernel with everything built in has none */
	for (char *line = strtok_r((char *)list.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (*line == '#' || n++ < first)
			continue;
		load(a, line);
		if (until && strstr(line, until))
			break;
	}
	return n;
}
