/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker gives up before it looks at anything from outside: new privileges, programs, processes, most system calls, every
 * file but what TLS and name resolution read. What it works on, it has as open descriptors. */
#ifndef PROVIDER_SANDBOX_H
#define PROVIDER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

struct sandbox {
	int write_dir;          /* directory in which files may be made, or -1 */
	const char *read[4];    /* files or directories that may be read; ends with NULL */
	bool network;           /* or only local files */
	bool scoped;            /* sandbox_scope() was called, for the sake of a child */
	uint64_t file_size;     /* largest file that may be written */
	uint64_t memory;        /* largest address space */
};

/* The first layer, before a program is started that has to end with us: signals and abstract sockets reach nobody outside. That program is inside;
 * else the kernel would refuse to send it the signal that our end stands for. Files can no more be moved from one directory to another. */
int sandbox_scope(struct edera_error *);
/* Before any thread is started. Parts that the kernel does not have are left out; *ret names those in force. */
int sandbox_enter(const struct sandbox *, char ret[64], struct edera_error *);

/* For a program of the system that works on what came from outside: reads libraries, runs nothing else, makes no processes and no connections,
 * writes the file behind `output` alone. Called by the process that becomes it. Unlike our own worker it may call most of the kernel, since what
 * it calls is not known. */
int sandbox_program(const char *program, int output, uint64_t memory, struct edera_error *);

#endif
