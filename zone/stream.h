/* SPDX-License-Identifier: Apache-2.0 */
/* One stream of a process as the host sees it: output kept in a ring until the host has it, input taken by offset. */
#ifndef ZONE_STREAM_H
#define ZONE_STREAM_H

#include "agent.h"
#include "base/buf.h"
#include "ring.h"

struct output {
	struct ring ring;
	struct watch *watch;  /* NULL: at its end, or never open */
	bool started, last;   /* last: nobody is left who could add; the end is where nothing more is there */
	void (*changed)(void *user); /* there are new bytes, or the end; not from within a function below but output_start's descriptor */
	void *user;
};

int output_open(struct output *, struct agent *, int fd); /* takes fd; 0 or -ENOMEM */
void output_start(struct output *);
void output_release(struct output *, uint64_t offset); /* and reads on if it was full */
void output_finish(struct output *);                   /* takes what is there, then it is at its end */
static inline bool output_eof(const struct output *o) { return !o->watch; }
void output_close(struct output *);

#define INPUT_MAX (64u << 10)

struct input {
	struct buf queue;
	struct watch *watch;  /* NULL: closed, or there is none */
	uint64_t accepted;    /* bytes taken from the host, those in the queue included */
	bool eof, tty;
	void (*changed)(void *user); /* there is room again, or it was closed */
	void *user;
};

int input_open(struct input *, struct agent *, int fd, bool tty); /* takes fd; 0 or -ENOMEM */
/* Takes what is new in data, as far as there is room. -ERANGE: a gap lies before offset. */
int input_take(struct input *, uint64_t offset, const uint8_t *data, size_t len, bool eof);
void input_close(struct input *);

#endif
