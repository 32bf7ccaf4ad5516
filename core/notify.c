/* SPDX-License-Identifier: Apache-2.0 */
#include "notify.h"
#include "base/cleanup.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	_close_ int fd = -1;

	if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof a.sun_path)
		return;
	memcpy(a.sun_path, path, strlen(path));
	if (*path == '@')
		a.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
}
