/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets with a name in the file system: listening and connecting. Internal to core/rpc. */
#ifndef RPC_UNIX_SOCKET_H
#define RPC_UNIX_SOCKET_H

#include <sys/types.h>
#include <sys/un.h>
#include <uv.h>
#include "base/error.h"

struct unix_listener;

/* 0 or -ENAMETOOLONG. */
int unix_socket_address(const char *path, struct sockaddr_un *ret, struct edera_error *);
/* A connected, non-blocking descriptor, or a negative errno. */
int unix_socket_connect(const char *path);

/* Binds, sets mode and group, listens. A stale socket is replaced; -EADDRINUSE if somebody answers on it, -EEXIST if it is something else.
 * NULL on failure. `accepted` owns the non-blocking descriptor it is given. */
struct unix_listener *unix_listener_new(uv_loop_t *, const char *path, mode_t mode, gid_t gid, void (*accepted)(void *user, int fd), void *user,
					struct edera_error *);
/* Takes a descriptor that is listening already. It is ours from here on, also on failure. */
struct unix_listener *unix_listener_new_fd(uv_loop_t *, int fd, void (*accepted)(void *user, int fd), void *user, struct edera_error *);
/* Stops at once, removes the name if it is still this socket's; the memory follows from the loop. */
void unix_listener_free(struct unix_listener *);

#endif
