/* SPDX-License-Identifier: Apache-2.0 */
#include "users.h"

#include "base/cleanup.h"
#include "base/text.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_MAX (4u << 20)

/* A regular file below root, links followed inside it only. A file that is not there reads as empty. */
static int read_below(int root, const char *path, struct buf *b, struct edera_error *err)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	_close_ int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
	struct stat st;
	ssize_t n = 1;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return err_set(err, -EINVAL, "cannot read '%s' of the image: not a regular file of at most %u bytes", path, FILE_MAX);
	while (n > 0 && b->len <= FILE_MAX && !buf_reserve(b, 16 << 10)) {
		n = read(fd, b->data + b->len, 16 << 10);
		if (n > 0)
			b->len += (size_t)n;
	}
	if (b->data)
		b->data[b->len] = 0;
	return b->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

static bool number(const char *s, uint32_t *ret)
{
	uint64_t v;

	if (text_parse_u64(s, 0, UINT32_MAX - 1, &v))
		return false;
	*ret = (uint32_t)v;
	return true;
}

/* Cuts "a:b:c" in place into at most n fields; those missing are "". */
static void fields(char *line, char **f, size_t n)
{
	static char none[1];

	for (size_t i = 0; i < n; i++) {
		f[i] = line ? line : none;
		if (line && (line = strchr(line, ':')))
			*line++ = 0;
	}
}

static bool in_list(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
		if (strcspn(p, ",") == n && !memcmp(p, name, n))
			return true;
	}
	return false;
}

struct query {
	char user[256], group[256];
	char name[256]; /* of the user found */
	bool by_gid, found, group_found;
};

static void look_in_passwd(char *text, struct query *q, struct user *u)
{
	bool numeric = number(q->user, &u->uid);
	char *save = NULL, *f[7];
	uint32_t uid, gid;

	q->found = numeric;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		fields(l, f, 7);
		if (!number(f[2], &uid) || !number(f[3], &gid) || (numeric ? uid != u->uid : strcmp(f[0], q->user)))
			continue;
		u->uid = uid;
		u->gid = gid;
		q->found = true;
		snprintf(q->name, sizeof q->name, "%s", f[0]);
		if (*f[5] == '/')
			snprintf(u->home, sizeof u->home, "%s", f[5]);
		return;
	}
}

static void look_in_group(char *text, struct query *q, struct user *u)
{
	char *save = NULL, *f[4];
	uint32_t gid;

	q->group_found = !*q->group || number(q->group, &u->gid);
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		fields(l, f, 4);
		if (!number(f[2], &gid))
			continue;
		if (*q->group) {
			if (!q->group_found && !strcmp(f[0], q->group)) {
				u->gid = gid;
				q->group_found = true;
			}
		} else if (*q->name && in_list(f[3], q->name) && gid != u->gid && u->n_groups < USER_GROUPS_MAX) {
			u->groups[u->n_groups++] = gid;
		}
	}
}

int user_resolve(int root, const char *user, struct user *ret, struct edera_error *err)
{
	_buf_ struct buf passwd = BUF_INIT, group = BUF_INIT;
	const char *colon = strchr(user, ':');
	struct query q = { 0 };
	struct user u = { 0 };
	static char empty[1];

	if (strlen(user) >= sizeof q.user)
		return err_set(err, -EINVAL, "the user '%.64s...' has too long a name", user);
	snprintf(q.user, sizeof q.user, "%.*s", colon ? (int)(colon - user) : (int)strlen(user), user);
	snprintf(q.group, sizeof q.group, "%s", colon ? colon + 1 : "");
	if (!*q.user)
		strcpy(q.user, "0");
	if (read_below(root, "etc/passwd", &passwd, err) || read_below(root, "etc/group", &group, err))
		return err->code;
	strcpy(u.home, "/");
	look_in_passwd(passwd.data ? (char *)passwd.data : empty, &q, &u);
	if (!q.found)
		return err_set(err, -ENOENT, "there is no user '%s' in the image's /etc/passwd", q.user);
	if (u.uid == 0 && !*q.name)
		strcpy(u.home, "/root");
	look_in_group(group.data ? (char *)group.data : empty, &q, &u);
	if (!q.group_found)
		return err_set(err, -ENOENT, "there is no group '%s' in the image's /etc/group", q.group);
	*ret = u;
	return 0;
}

static int value_text(const Protect__Control__V1__IdOrNameValue *v, char *dst, size_t cap)
{
	int n = 0;

	if (v->id_or_name_case == PROTECT__CONTROL__V1__ID_OR_NAME_VALUE__ID_OR_NAME_ID)
		n = snprintf(dst, cap, "%u", v->id);
	else if (v->id_or_name_case == PROTECT__CONTROL__V1__ID_OR_NAME_VALUE__ID_OR_NAME_NAME)
		n = snprintf(dst, cap, "%s", v->name);
	else
		*dst = 0;
	return n < 0 || (size_t)n >= cap ? -EINVAL : 0;
}

int user_of_spec(int root, const Protect__Control__V1__ProcessSpec *spec, const char *image_user, struct user *ret, struct edera_error *err)
{
	char user[256] = "", group[256] = "", both[520];

	if ((spec && spec->user && value_text(spec->user, user, sizeof user)) || (spec && spec->group && value_text(spec->group, group, sizeof group)))
		return err_set(err, -EINVAL, "the user or group of the process has too long a name");
	if (strchr(group, ':') || (*group && strchr(user, ':')))
		return err_set(err, -EINVAL, "the group '%s' of the process is no name", group);
	snprintf(both, sizeof both, "%s%s%s", *user ? user : *group ? "0" : image_user, *group ? ":" : "", group);
	if (user_resolve(root, both, ret, err))
		return err->code;
	for (size_t i = 0; spec && i < spec->n_additional_gids && ret->n_groups < USER_GROUPS_MAX; i++)
		if (spec->additional_gids[i] >= 0 && spec->additional_gids[i] < UINT32_MAX)
			ret->groups[ret->n_groups++] = (uint32_t)spec->additional_gids[i];
	return 0;
}
