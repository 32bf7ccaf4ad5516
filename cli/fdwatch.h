/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness of stdin, stdout or stderr on the loop, without making them non-blocking: that would be seen by every process that
 * shares the terminal or the pipe. An epoll descriptor of our own is watched in their place. */
#ifndef CLI_FDWATCH_H
#define CLI_FDWATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct fdwatch {
	int fd, epoll;
	bool always; /* a file, which epoll refuses: always ready */
	uint32_t events;
	uv_poll_t poll;
	uv_idle_t idle;
	int open; /* handles not closed yet */
	/* events: EPOLLIN, EPOLLOUT as asked for; EPOLLERR and EPOLLHUP at any time. */
	void (*ready)(struct fdwatch *, uint32_t events);
	void *user;
};

int fdwatch_open(struct fdwatch *, uv_loop_t *, int fd, void (*ready)(struct fdwatch *, uint32_t events), void *user);
void fdwatch_want(struct fdwatch *, uint32_t events); /* 0: errors only */
void fdwatch_pause(struct fdwatch *);                 /* not even errors, until the next want */
void fdwatch_close(struct fdwatch *);                 /* the struct must live until `open` is 0 */

#endif
