/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-bound ownership: declare with _cleanup_(f), hand over with steal_ptr / steal_fd. */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <dirent.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

static inline void free_ptr(void *p) { free(*(void **)p); }
static inline void close_fd(int *fd) { if (*fd >= 0) close(*fd); }
static inline void close_file(FILE **f) { if (*f) fclose(*f); }
static inline void close_dir(DIR **d) { if (*d) closedir(*d); }

#define _free_ _cleanup_(free_ptr)
#define _close_ _cleanup_(close_fd)
#define _fclose_ _cleanup_(close_file)
#define _closedir_ _cleanup_(close_dir)

#define steal_ptr(p) ({ __typeof__(p) *steal_pp = &(p); __typeof__(p) steal_v = *steal_pp; *steal_pp = NULL; steal_v; })
static inline int steal_fd(int *fd) { int v = *fd; *fd = -1; return v; }

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
