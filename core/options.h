/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's command line. */
#ifndef CORE_OPTIONS_H
#define CORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include "base/path.h"

struct options {
	char config[PATH_CAP]; /* DATA/daemon.toml unless named */
	char data_dir[PATH_CAP], run_dir[PATH_CAP];
	const char *listen[8]; /* paths of sockets; none: the two defaults */
	size_t n_listen;
	bool own_instance; /* not the node's daemon: a data directory of its own */
	bool own_run_dir;  /* of its own too, and named by nobody */
	bool check_config;
	int log_level; /* 0: as configured */
};

/* 0: go on; 1: it was --help or --version and is done; -EINVAL: a sentence was printed. */
int options_parse(struct options *, int argc, char **argv);

#endif
