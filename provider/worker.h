/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of the program. The front runs with the caller's rights: it finds credentials, makes the output, and starts
 * the worker, which has descriptors, sandboxes itself, and does everything that touches what a registry sends. */
#ifndef PROVIDER_WORKER_H
#define PROVIDER_WORKER_H

#include "options.h"

/* Between the halves: all is well and the output was not touched, as the image is one of options->have. */
#define STATUS_CACHED 3

/* Exit status. */
int worker_main(struct options *);
int front_main(const struct options *, int argc, char **argv);

/* An error for the caller: a sentence on standard error, and the last JSON line where those are wanted. Returns 1. */
int report_error(const struct options *, const struct edera_error *);

#endif
