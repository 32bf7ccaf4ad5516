/* SPDX-License-Identifier: Apache-2.0 */
#include "vm.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIRST_UID 61000u

const struct options *opt;
const struct edera_hypervisor_ops *ops;
uint64_t caps;
void *inst;

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

struct edera_call *within(int ms)
{
	static _Thread_local struct edera_call call;

	call = (struct edera_call){ .size = sizeof call, .cancel_fd = -1, .deadline_ns = now_ns() + ms * 1000000ll };
	return &call;
}

int vm_prepare(struct vm *v, const char *id)
{
	static atomic_uint uid;

	memset(v, 0, sizeof *v);
	if (id)
		snprintf(v->id, sizeof v->id, "%s", id);
	else
		text_uuid(v->id);
	if (path_format(v->run_dir, NULL, "%s/run/zones/%s", opt->work, v->id) || path_mkdirs(v->run_dir, 0711, NULL))
		return -1;
	v->spec = (struct edera_vm_spec){
		.size = sizeof v->spec, .id = v->id, .name = "it's <a> \"zone\" & more", .kernel = opt->kernel, .initrd = opt->initrd,
		.cmdline = opt->cmdline, .memory_mib = 192, .max_memory_mib = 192, .vcpus = 1, .max_vcpus = 2,
		.uid = FIRST_UID + atomic_fetch_add(&uid, 1), .disks = v->disks, .run_dir = v->run_dir,
	};
	return 0;
}

int vm_make(struct vm *v, struct edera_vm_info *info, struct edera_error *err)
{
	if (vm_prepare(v, NULL))
		return -1;
	info->size = sizeof *info;
	return ops->vm_create(inst, CALL, &v->spec, info, err);
}

int vm_make_running(struct vm *v, struct edera_error *err)
{
	struct edera_vm_info info;
	int r = vm_make(v, &info, err);

	return r ? r : ops->vm_start(inst, CALL, v->id, err);
}

void vm_end(struct vm *v)
{
	if (!v->id[0])
		return;
	ops->vm_destroy(inst, CALL, v->id, NULL);
	path_remove_tree(v->run_dir, NULL);
}
static bool names_id(int pid, const char *id)
{
	char path[64], text[65536];
	_close_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof text);
	return n > 0 && memmem(text, (size_t)n, id, strlen(id));
}

int processes_of(const char *id, int pids[MAX_PIDS])
{
	_closedir_ DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d))) {
		int pid = atoi(e->d_name);

		if (pid > 0 && pid != getpid() && n < MAX_PIDS && names_id(pid, id))
			pids[n++] = pid;
	}
	return n;
}

bool no_processes(const char *id)
{
	int pids[MAX_PIDS];

	for (int i = 0; i < 100; i++) {
		if (processes_of(id, pids) == 0)
			return true;
		usleep(10000);
	}
	return false;
}

int see(void *user, const struct edera_vm_info *info)
{
	struct seen *s = user;

	s->total++;
	s->n += !s->id || !strcmp(info->id, s->id);
	return s->stop_after && s->total >= s->stop_after;
}

int times_listed(const char *id)
{
	struct seen s = { .id = id };

	return ops->vm_list(inst, CALL, see, &s, NULL) < 0 ? -1 : s.n;
}

bool ended(const char *id)
{
	struct edera_vm_info info = { .size = sizeof info };

	for (int i = 0; i < 500; i++) {
		int r = ops->vm_info(inst, CALL, id, &info, NULL);

		if (r == -ENOENT || (!r && info.state == EDERA_VM_STOPPED))
			return true;
		usleep(10000);
	}
	return false;
}

bool read_until(int fd, const char *text, int ms)
{
	int64_t end = now_ns() + ms * 1000000ll;
	_buf_ struct buf b = BUF_INIT;

	while (now_ns() < end) {
		struct pollfd pf = { .fd = fd, .events = POLLIN };
		char chunk[4096];
		ssize_t n;

		if (poll(&pf, 1, 100) <= 0)
			continue;
		n = read(fd, chunk, sizeof chunk);
		if (n == 0)
			return false;
		if (n > 0)
			buf_append(&b, chunk, (size_t)n);
		if (!b.failed && b.len && memmem(b.data, b.len, text, strlen(text)))
			return true;
	}
	return false;
}

int make_disk(const char *name, char path[PATH_CAP])
{
	_close_ int fd = -1;

	if (path_format(path, NULL, "%s/%s.img", opt->work, name))
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	return fd < 0 || ftruncate(fd, 1 << 20) < 0 ? -1 : 0;
}

int count_entries(const char *path)
{
	_closedir_ DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	return n - 2;
}

void ask_agent(const char *id, struct agent_reply *ret)
{
	struct edera_error err = EDERA_ERROR_INIT;
	int fd = -1;

	CHECK_ERR(ops->vm_channel(inst, CALL, id, &fd, &err) == 0, &err);
	CHECK_ERR(agent_status(fd, 60000, ret, &err) == 0, &err);
}
