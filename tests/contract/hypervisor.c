/* SPDX-License-Identifier: Apache-2.0 */
/* What every hypervisor plugin promises. Nothing here knows a backend: processes of a VM are those whose command line names its id. */
#include "contract.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define FIRST_UID 61000u
#define MAX_PIDS 64

static const struct options *opt;
static const struct edera_hypervisor_ops *ops;
static uint64_t caps;
static void *inst;

/* ---- helpers ---- */

struct vm {
	char id[37], run_dir[PATH_CAP];
	struct edera_vm_spec spec;
	struct edera_disk disks[2];
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static struct edera_call *within(int ms)
{
	static _Thread_local struct edera_call call;

	call = (struct edera_call){ .size = sizeof call, .cancel_fd = -1, .deadline_ns = now_ns() + ms * 1000000ll };
	return &call;
}

#define CALL within(120000)

/* A spec and the directory the core makes for it. */
static int vm_prepare(struct vm *v, const char *id)
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

static int vm_make(struct vm *v, struct edera_vm_info *info, struct edera_error *err)
{
	if (vm_prepare(v, NULL))
		return -1;
	info->size = sizeof *info;
	return ops->vm_create(inst, CALL, &v->spec, info, err);
}

static int vm_make_running(struct vm *v, struct edera_error *err)
{
	struct edera_vm_info info;
	int r = vm_make(v, &info, err);

	return r ? r : ops->vm_start(inst, CALL, v->id, err);
}

/* Destroys what a test that failed left, too. */
static void vm_end(struct vm *v)
{
	if (!v->id[0])
		return;
	ops->vm_destroy(inst, CALL, v->id, NULL);
	path_remove_tree(v->run_dir, NULL);
}
#define _vm_ __attribute__((cleanup(vm_end)))

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

static int processes_of(const char *id, int pids[MAX_PIDS])
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

static bool no_processes(const char *id)
{
	int pids[MAX_PIDS];

	for (int i = 0; i < 100; i++) {
		if (processes_of(id, pids) == 0)
			return true;
		usleep(10000);
	}
	return false;
}

struct seen {
	const char *id;
	int n, total, stop_after;
};

static int see(void *user, const struct edera_vm_info *info)
{
	struct seen *s = user;

	s->total++;
	s->n += !s->id || !strcmp(info->id, s->id);
	return s->stop_after && s->total >= s->stop_after;
}

static int times_listed(const char *id)
{
	struct seen s = { .id = id };

	return ops->vm_list(inst, CALL, see, &s, NULL) < 0 ? -1 : s.n;
}

/* Gone as far as the core can tell: an id that is no longer known, or one that is known to have stopped. */
static bool ended(const char *id)
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

static bool read_until(int fd, const char *text, int ms)
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

static int make_disk(const char *name, char path[PATH_CAP])
{
	_close_ int fd = -1;

	if (path_format(path, NULL, "%s/%s.img", opt->work, name))
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	return fd < 0 || ftruncate(fd, 1 << 20) < 0 ? -1 : 0;
}

static int count_entries(const char *path)
{
	_closedir_ DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	return n - 2;
}

/* ---- tests ---- */

static void test_table(void)
{
	CHECK(ops->size >= sizeof *ops);
	CHECK(ops->vm_create && ops->vm_start && ops->vm_stop && ops->vm_destroy && ops->vm_info && ops->vm_list && ops->vm_channel);
	CHECK(!!(caps & EDERA_HV_CONSOLE) == (ops->vm_console != NULL));
	CHECK(!!(caps & EDERA_HV_BLOCK_HOTPLUG) == (ops->disk_attach != NULL));
	CHECK(!!(caps & EDERA_HV_BLOCK_HOTPLUG) == (ops->disk_detach != NULL));
	CHECK(!!(caps & EDERA_HV_FS_SHARE) == (ops->share_attach != NULL));
	CHECK(!!(caps & EDERA_HV_FS_SHARE) == (ops->share_detach != NULL));
}

static void test_unknown_id(void)
{
	static const char *const ids[] = { "00000000-0000-4000-8000-00000000dead", "not-a-uuid", "", "../../etc" };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct edera_vm_info info = { .size = sizeof info };
		struct edera_disk disk = { "d", opt->kernel, EDERA_DISK_READONLY, 0 };
		struct edera_error err = EDERA_ERROR_INIT;
		int fd = -1;

		CHECK(ops->vm_info(inst, CALL, ids[i], &info, &err) == -ENOENT);
		CHECK(err.code == -ENOENT && err.msg[0]);
		CHECK(ops->vm_start(inst, CALL, ids[i], NULL) == -ENOENT);
		CHECK(ops->vm_stop(inst, CALL, ids[i], 0, NULL) == -ENOENT);
		CHECK(ops->vm_stop(inst, CALL, ids[i], EDERA_VM_STOP_FORCE, NULL) == -ENOENT);
		CHECK(ops->vm_channel(inst, CALL, ids[i], &fd, NULL) == -ENOENT && fd == -1);
		CHECK(!ops->vm_console || (ops->vm_console(inst, CALL, ids[i], &fd, NULL) == -ENOENT && fd == -1));
		CHECK(!ops->disk_attach || ops->disk_attach(inst, CALL, ids[i], &disk, NULL) == -ENOENT);
		CHECK(!ops->disk_detach || ops->disk_detach(inst, CALL, ids[i], "d", NULL) == -ENOENT);
		CHECK_ERR(ops->vm_destroy(inst, CALL, ids[i], &err) == 0, &err);
	}
}

static void refuse(struct vm *v, int code)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	int r = ops->vm_create(inst, CALL, &v->spec, &info, &err);

	CHECK_ERR(r < 0 && r == err.code && err.msg[0], &err);
	CHECK_ERR(!code || r == code, &err);
	CHECK(times_listed(v->id) == 0);
	CHECK(no_processes(v->id));
}

static void test_bad_spec(void)
{
	_vm_ struct vm id = { 0 }, kernel = { 0 }, serial = { 0 }, disk = { 0 };

	CHECK(!vm_prepare(&id, NULL));
	id.spec.id = "zone-1";
	refuse(&id, -EINVAL);
	CHECK(!vm_prepare(&serial, NULL));
	serial.disks[0] = (struct edera_disk){ "no/slash", opt->kernel, EDERA_DISK_READONLY, 0 };
	serial.spec.n_disks = 1;
	refuse(&serial, -EINVAL);
	CHECK(!vm_prepare(&disk, NULL));
	disk.disks[0] = (struct edera_disk){ "d", "/nonexistent/disk", EDERA_DISK_READONLY, 0 };
	disk.spec.n_disks = 1;
	refuse(&disk, -ENOENT);
	if (!(caps & EDERA_HV_OWN_KERNEL))
		return;
	CHECK(!vm_prepare(&kernel, NULL));
	kernel.spec.kernel = "/nonexistent/kernel";
	refuse(&kernel, 0);
	CHECK(count_entries(kernel.run_dir) == 0);
}

static void test_deadline(void)
{
	struct edera_call late = { .size = sizeof late, .cancel_fd = -1, .deadline_ns = now_ns() - 1 };
	struct edera_vm_info info = { .size = sizeof info };
	_vm_ struct vm v = { 0 };
	struct seen s = { 0 };

	CHECK(!vm_prepare(&v, NULL));
	CHECK(ops->vm_create(inst, &late, &v.spec, &info, NULL) == -ETIMEDOUT);
	CHECK(ops->vm_info(inst, &late, v.id, &info, NULL) == -ETIMEDOUT);
	CHECK(ops->vm_list(inst, &late, see, &s, NULL) == -ETIMEDOUT);
	CHECK(times_listed(v.id) == 0 && no_processes(v.id));
}

/* Given up in the middle: either it was already made, or nothing of it is left. */
static void test_cancel(void)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	_close_ int fd = eventfd(1, EFD_CLOEXEC);
	struct edera_call gone = { .size = sizeof gone, .cancel_fd = fd };
	_vm_ struct vm v = { 0 };

	CHECK(!vm_prepare(&v, NULL));
	CHECK_ERR(ops->vm_create(inst, &gone, &v.spec, &info, &err) == -ECANCELED, &err);
	CHECK(times_listed(v.id) == 0 && no_processes(v.id));
	for (int ms = 2; ms < 300; ms *= 3) {
		int r = ops->vm_create(inst, within(ms), &v.spec, &info, &err);

		CHECK_ERR(r == 0 || r == -ETIMEDOUT, &err);
		CHECK(times_listed(v.id) == (r == 0));
		CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
		CHECK(no_processes(v.id) && count_entries(v.run_dir) == 0);
	}
}

static void test_life(void)
{
	struct edera_vm_info info = { .size = sizeof info }, again = info;
	struct edera_error err = EDERA_ERROR_INIT;
	_vm_ struct vm v = { 0 };
	int pids[MAX_PIDS];

	CHECK_ERR(vm_make(&v, &info, &err) == 0, &err);
	CHECK(info.state == EDERA_VM_CREATED && info.domid > 0 && !strcmp(info.id, v.id));
	CHECK(ops->vm_create(inst, CALL, &v.spec, &again, &err) == -EEXIST);
	CHECK(times_listed(v.id) == 1);
	CHECK_ERR(ops->vm_start(inst, CALL, v.id, &err) == 0, &err);
	CHECK_ERR(ops->vm_start(inst, CALL, v.id, &err) == 0, &err);
	CHECK(ops->vm_info(inst, CALL, v.id, &again, &err) == 0);
	CHECK(again.state == EDERA_VM_RUNNING && again.domid == info.domid);
	CHECK(host_wait_event(v.id, EDERA_VM_EVENT_STARTED, 5000, NULL));
	CHECK(processes_of(v.id, pids) > 0);
	CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
	CHECK(ops->vm_info(inst, CALL, v.id, &again, &err) == -ENOENT);
	CHECK(times_listed(v.id) == 0);
	CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
	CHECK(no_processes(v.id));
	CHECK(count_entries(v.run_dir) == 0);
}

static void test_never_started(void)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	_vm_ struct vm v = { 0 };

	CHECK_ERR(vm_make(&v, &info, &err) == 0, &err);
	CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
	CHECK(no_processes(v.id) && count_entries(v.run_dir) == 0);
}

static void test_list(void)
{
	struct edera_vm_info a = { .size = sizeof a }, b = a;
	struct edera_error err = EDERA_ERROR_INIT;
	_vm_ struct vm one = { 0 }, two = { 0 };
	struct seen s = { .stop_after = 1 };

	CHECK_ERR(vm_make(&one, &a, &err) == 0, &err);
	CHECK_ERR(vm_make(&two, &b, &err) == 0, &err);
	CHECK(a.domid != b.domid);
	CHECK(times_listed(one.id) == 1 && times_listed(two.id) == 1 && times_listed(NULL) == 2);
	CHECK(ops->vm_list(inst, CALL, see, &s, &err) == 0 && s.total == 1);
}

static void test_console(void)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	_close_ int fd = -1, second = -1;
	_vm_ struct vm v = { 0 };
	int64_t start;

	CHECK_ERR(vm_make(&v, &info, &err) == 0, &err);
	CHECK_ERR(ops->vm_console(inst, CALL, v.id, &fd, &err) == 0, &err);
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC);
	start = now_ns();
	CHECK_ERR(ops->vm_start(inst, CALL, v.id, &err) == 0, &err);
	CHECK(!opt->console_text || read_until(fd, opt->console_text, 60000));
	printf("    from start to the guest's first words: %.3f s\n", (double)(now_ns() - start) / 1e9);
	close(steal_fd(&fd));
	CHECK_ERR(ops->vm_console(inst, CALL, v.id, &second, &err) == 0, &err);
	CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
	CHECK(!read_until(second, "never printed \xff", 3000));
}

/* The guest ends itself: that is no crash, and what is left of it goes with vm_destroy. */
static void test_power_off(void)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	_close_ int fd = -1;
	_vm_ struct vm v = { 0 };

	if (!opt->power_off)
		return;
	CHECK_ERR(vm_make(&v, &info, &err) == 0, &err);
	CHECK_ERR(ops->vm_console(inst, CALL, v.id, &fd, &err) == 0, &err);
	CHECK_ERR(ops->vm_start(inst, CALL, v.id, &err) == 0, &err);
	CHECK(read_until(fd, opt->console_text, 60000));
	CHECK(write(fd, opt->power_off, strlen(opt->power_off)) > 0 && write(fd, "\n", 1) == 1);
	CHECK(host_wait_event(v.id, EDERA_VM_EVENT_STOPPED, 20000, NULL));
	CHECK(!host_wait_event(v.id, EDERA_VM_EVENT_CRASHED, 0, NULL));
	CHECK(ended(v.id));
	CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
	CHECK(times_listed(v.id) == 0 && no_processes(v.id) && count_entries(v.run_dir) == 0);
}

static void test_channel(void)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	_vm_ struct vm v = { 0 };

	CHECK_ERR(vm_make(&v, &info, &err) == 0, &err);
	for (int i = 0; i < 30; i++) {
		_close_ int fd = -1;

		CHECK_ERR(ops->vm_channel(inst, CALL, v.id, &fd, &err) == 0, &err);
		CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC);
		if (i == 10)
			CHECK_ERR(ops->vm_start(inst, CALL, v.id, &err) == 0, &err);
		usleep(1000);
	}
}

/* The agent of a running VM, by whatever process asks. */
static void ask(const char *id, struct agent_reply *ret)
{
	struct edera_error err = EDERA_ERROR_INIT;
	int fd = -1;

	CHECK_ERR(ops->vm_channel(inst, CALL, id, &fd, &err) == 0, &err);
	CHECK_ERR(agent_status(fd, 60000, ret, &err) == 0, &err);
}

/* It answers whether the channel is opened before or after it began to listen, and again after each close. */
static void test_agent(void)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	struct agent_reply first = { 0 };
	struct utsname host;
	_vm_ struct vm v = { 0 };
	int64_t start;
	int fd = -1;

	if (!opt->agent)
		return;
	CHECK_ERR(vm_make(&v, &info, &err) == 0, &err);
	CHECK_ERR(ops->vm_channel(inst, CALL, v.id, &fd, &err) == 0, &err);
	CHECK_ERR(ops->vm_start(inst, CALL, v.id, &err) == 0, &err);
	start = now_ns();
	CHECK_ERR(agent_status(fd, 60000, &first, &err) == 0, &err);
	printf("    from start to the agent's answer: %.3f s\n", (double)(now_ns() - start) / 1e9);
	uname(&host);
	CHECK(!!strcmp(first.kernel, host.release) == !!(caps & EDERA_HV_OWN_KERNEL));
	for (int i = 0; i < 30 && !test_failed; i++) {
		struct agent_reply again = { 0 };

		ask(v.id, &again);
		CHECK(test_failed || again.instance == first.instance);
	}
	CHECK_ERR(ops->vm_channel(inst, CALL, v.id, &fd, &err) == 0, &err);
	CHECK_ERR(agent_power_off(fd, 60000, &err) == 0, &err);
	CHECK(host_wait_event(v.id, EDERA_VM_EVENT_STOPPED, 20000, NULL));
	CHECK(!host_wait_event(v.id, EDERA_VM_EVENT_CRASHED, 0, NULL));
	CHECK(ended(v.id));
}

static void test_disks(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char first[PATH_CAP], second[PATH_CAP];
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_disk extra = { "image-1", second, EDERA_DISK_READONLY, 0 };
	struct edera_disk none = { "image-2", "/nonexistent/disk", 0, 0 }, bad = { "Bad Serial", second, 0, 0 };
	_vm_ struct vm v = { 0 };
	struct stat before, after;

	CHECK(!make_disk("first", first) && !make_disk("second", second) && stat(second, &before) == 0);
	CHECK(!vm_prepare(&v, NULL));
	v.disks[0] = (struct edera_disk){ "addons", first, EDERA_DISK_READONLY, 0 };
	v.spec.n_disks = 1;
	CHECK_ERR(ops->vm_create(inst, CALL, &v.spec, &info, &err) == 0, &err);
	CHECK_ERR(ops->vm_start(inst, CALL, v.id, &err) == 0, &err);
	CHECK(ops->disk_attach(inst, CALL, v.id, &none, &err) == -ENOENT);
	CHECK(ops->disk_attach(inst, CALL, v.id, &bad, &err) == -EINVAL);
	CHECK(ops->disk_attach(inst, CALL, v.id, &v.disks[0], &err) == -EEXIST);
	for (int i = 0; i < 3; i++) {
		CHECK_ERR(ops->disk_attach(inst, CALL, v.id, &extra, &err) == 0, &err);
		CHECK(ops->disk_attach(inst, CALL, v.id, &extra, &err) == -EEXIST);
		CHECK_ERR(ops->disk_detach(inst, CALL, v.id, "image-1", &err) == 0, &err);
		CHECK_ERR(ops->disk_detach(inst, CALL, v.id, "image-1", &err) == 0, &err);
	}
	CHECK_ERR(ops->disk_detach(inst, CALL, v.id, "addons", &err) == 0, &err);
	CHECK(stat(second, &after) == 0 && before.st_uid == after.st_uid && before.st_gid == after.st_gid && before.st_mode == after.st_mode);
}

static void test_many_disks(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char path[PATH_CAP], serial[16];
	struct edera_disk d = { serial, path, EDERA_DISK_READONLY, 0 };
	_vm_ struct vm v = { 0 };

	CHECK(!make_disk("shared", path));
	CHECK_ERR(vm_make_running(&v, &err) == 0, &err);
	for (int i = 0; i < 40; i++) {
		snprintf(serial, sizeof serial, "layer-%d", i);
		CHECK_ERR(ops->disk_attach(inst, CALL, v.id, &d, &err) == 0, &err);
	}
	for (int i = 0; i < 40; i += 3) {
		snprintf(serial, sizeof serial, "layer-%d", i);
		CHECK_ERR(ops->disk_detach(inst, CALL, v.id, serial, &err) == 0, &err);
	}
}

static void test_stop(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_vm_ struct vm v = { 0 };

	CHECK_ERR(vm_make_running(&v, &err) == 0, &err);
	CHECK_ERR(ops->vm_stop(inst, CALL, v.id, 0, &err) == 0, &err);
	CHECK_ERR(ops->vm_stop(inst, CALL, v.id, EDERA_VM_STOP_FORCE, &err) == 0, &err);
	CHECK(ended(v.id));
	CHECK(host_wait_event(v.id, EDERA_VM_EVENT_STOPPED, 5000, NULL));
	CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
	CHECK(no_processes(v.id));
}

static void test_crash(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	int pids[MAX_PIDS], n;
	struct event e = { 0 };
	_vm_ struct vm v = { 0 };

	CHECK_ERR(vm_make_running(&v, &err) == 0, &err);
	n = processes_of(v.id, pids);
	CHECK(n > 0);
	for (int i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	CHECK(host_wait_event(v.id, EDERA_VM_EVENT_CRASHED, 5000, &e) && e.detail[0]);
	CHECK(ended(v.id));
	CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
	CHECK(times_listed(v.id) == 0 && no_processes(v.id) && count_entries(v.run_dir) == 0);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The same id again at once, with the times of each step. */
static void test_relaunch(void)
{
	double t[3][64];
	int n = opt->rounds < 64 ? opt->rounds : 64;
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	_vm_ struct vm v = { 0 };

	CHECK(!vm_prepare(&v, NULL));
	for (int i = 0; i < n; i++) {
		int64_t a = now_ns(), b, c;

		CHECK_ERR(ops->vm_create(inst, CALL, &v.spec, &info, &err) == 0, &err);
		b = now_ns();
		CHECK_ERR(ops->vm_start(inst, CALL, v.id, &err) == 0, &err);
		c = now_ns();
		CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
		t[0][i] = (double)(b - a) / 1e9;
		t[1][i] = (double)(c - b) / 1e9;
		t[2][i] = (double)(now_ns() - c) / 1e9;
	}
	for (int i = 0; i < 3; i++)
		qsort(t[i], (size_t)n, sizeof t[i][0], compare);
	printf("    medians of %d: create %.3f s, start %.3f s, destroy %.3f s\n", n, t[0][n / 2], t[1][n / 2], t[2][n / 2]);
	CHECK(t[2][n / 2] < 0.5);
}

/* Each VM's processes have its own user, and nothing shared has been given away. */
static void test_users(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_vm_ struct vm one = { 0 }, two = { 0 };
	struct vm *both[] = { &one, &two };
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		int pids[MAX_PIDS], n;
		char path[64];

		CHECK_ERR(vm_make_running(both[i], &err) == 0, &err);
		n = processes_of(both[i]->id, pids);
		CHECK(n > 0);
		for (int j = 0; j < n; j++) {
			snprintf(path, sizeof path, "/proc/%d", pids[j]);
			CHECK(stat(path, &st) == 0 && st.st_uid == both[i]->spec.uid);
		}
	}
	CHECK(one.spec.uid != two.spec.uid);
	CHECK(stat(opt->kernel, &st) == 0 && st.st_uid == 0);
	CHECK(stat(opt->initrd, &st) == 0 && st.st_uid == 0);
}

static void *live_once(void *user)
{
	struct edera_error *err = user;
	_vm_ struct vm v = { 0 };

	if (vm_make_running(&v, err) == 0 && ops->vm_destroy(inst, CALL, v.id, err) == 0 && !no_processes(v.id))
		err_set(err, -EBUSY, "processes of %s are left", v.id);
	return NULL;
}

static void test_together(void)
{
	struct edera_error err[4] = { EDERA_ERROR_INIT, EDERA_ERROR_INIT, EDERA_ERROR_INIT, EDERA_ERROR_INIT };
	pthread_t t[4];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		CHECK(pthread_create(&t[i], NULL, live_once, &err[i]) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_ERR(err[i].code == 0, &err[i]);
	CHECK(times_listed(NULL) == 0);
}

/* Another process of the same daemon made this VM and is gone; how, does not matter. */
static void adopt(const char *id)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	_close_ int channel = -1, console = -1;
	int pids[MAX_PIDS];
	_vm_ struct vm v = { 0 };

	CHECK(!vm_prepare(&v, id));
	CHECK(processes_of(id, pids) > 0);
	CHECK(times_listed(id) == 1);
	CHECK_ERR(ops->vm_info(inst, CALL, id, &info, &err) == 0, &err);
	CHECK(info.state == EDERA_VM_RUNNING && info.domid > 0);
	if (opt->agent)
		ask(id, &(struct agent_reply){ 0 });
	CHECK(!test_failed);
	CHECK_ERR(ops->vm_channel(inst, CALL, id, &channel, &err) == 0, &err);
	CHECK_ERR(!ops->vm_console || ops->vm_console(inst, CALL, id, &console, &err) == 0, &err);
	CHECK_ERR(ops->vm_stop(inst, CALL, id, EDERA_VM_STOP_FORCE, &err) == 0, &err);
	CHECK(host_wait_event(id, EDERA_VM_EVENT_STOPPED, 5000, NULL));
	CHECK_ERR(ops->vm_destroy(inst, CALL, id, &err) == 0, &err);
	CHECK(no_processes(id));
	CHECK(count_entries(v.run_dir) == 0);
}

/* Somebody else's VM is not there, whatever is asked of it. */
static void test_foreign(void)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	int pids[MAX_PIDS], fd = -1;

	if (!opt->foreign)
		return;
	CHECK(processes_of(opt->foreign, pids) > 0);
	CHECK(times_listed(opt->foreign) == 0);
	CHECK(ops->vm_info(inst, CALL, opt->foreign, &info, &err) == -ENOENT);
	CHECK(ops->vm_start(inst, CALL, opt->foreign, &err) == -ENOENT);
	CHECK(ops->vm_stop(inst, CALL, opt->foreign, EDERA_VM_STOP_FORCE, &err) == -ENOENT);
	CHECK(ops->vm_channel(inst, CALL, opt->foreign, &fd, &err) == -ENOENT);
	CHECK_ERR(ops->vm_destroy(inst, CALL, opt->foreign, &err) == 0, &err);
	CHECK(processes_of(opt->foreign, pids) > 0);
}

#define KILLED_ID "11111111-1111-4111-8111-111111111111"
#define CLOSED_ID "22222222-2222-4222-8222-222222222222"
static void test_adopt_after_kill(void) { adopt(KILLED_ID); }
static void test_adopt_after_stop(void) { adopt(CLOSED_ID); }

static const struct test tests[] = {
	{ "adopt-after-kill", test_adopt_after_kill, EDERA_HV_ADOPT },
	{ "adopt-after-stop", test_adopt_after_stop, EDERA_HV_ADOPT },
	{ "table", test_table, 0 },
	{ "unknown-id", test_unknown_id, 0 },
	{ "bad-spec", test_bad_spec, 0 },
	{ "deadline", test_deadline, 0 },
	{ "cancel", test_cancel, 0 },
	{ "life", test_life, 0 },
	{ "never-started", test_never_started, 0 },
	{ "list", test_list, 0 },
	{ "console", test_console, EDERA_HV_CONSOLE },
	{ "power-off", test_power_off, EDERA_HV_CONSOLE },
	{ "channel", test_channel, 0 },
	{ "agent", test_agent, 0 },
	{ "disks", test_disks, EDERA_HV_BLOCK_HOTPLUG },
	{ "many-disks", test_many_disks, EDERA_HV_BLOCK_HOTPLUG },
	{ "stop", test_stop, 0 },
	{ "crash", test_crash, 0 },
	{ "relaunch", test_relaunch, 0 },
	{ "users", test_users, EDERA_HV_OWN_KERNEL },
	{ "together", test_together, 0 },
	{ "foreign", test_foreign, 0 },
};

int test_hypervisor(const struct options *o, const struct edera_provide *p, void *instance)
{
	opt = o;
	ops = p->ops;
	caps = p->caps;
	inst = instance;
	return run_tests(o, tests, ARRAY_SIZE(tests), caps);
}

int hypervisor_leave_vm(const struct options *o, const struct edera_provide *p, void *instance, const char *id)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct edera_vm_info info = { .size = sizeof info };
	struct vm v;
	int r;

	opt = o;
	ops = p->ops;
	inst = instance;
	if (vm_prepare(&v, id))
		return -1;
	r = ops->vm_create(inst, CALL, &v.spec, &info, &err);
	if (!r)
		r = ops->vm_start(inst, CALL, id, &err);
	if (r)
		fprintf(stderr, "contract: %s\n", err.msg);
	return r;
}
