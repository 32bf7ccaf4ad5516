/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process runs as, looked up in the /etc/passwd and /etc/group of a root directory that is not to be trusted. */
#ifndef ZONE_USERS_H
#define ZONE_USERS_H

#include "agent.h"

#define USER_GROUPS_MAX 64

struct user {
	uint32_t uid, gid;
	uint32_t groups[USER_GROUPS_MAX]; /* supplementary */
	size_t n_groups;
	char home[256];
};

/* user: "", "uid", "name", with ":gid" or ":group" behind it as an image's configuration has it. root: directory descriptor.
 * -ENOENT: a name that is not there. */
int user_resolve(int root, const char *user, struct user *ret, struct edera_error *);
/* What a ProcessSpec says, over an image's default (may be ""). */
int user_of_spec(int root, const Protect__Control__V1__ProcessSpec *, const char *image_user, struct user *ret, struct edera_error *);

#endif
