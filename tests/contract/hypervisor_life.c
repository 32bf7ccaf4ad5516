/* SPDX-License-Identifier: Apache-2.0 */
/* What a hypervisor plugin promises about making, finding and ending VMs. */
#include "vm.h"
#include "base/cleanup.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

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
		ask_agent(id, &(struct agent_reply){ 0 });
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

const struct test life_tests[] = {
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
	{ "stop", test_stop, 0 },
	{ "crash", test_crash, 0 },
	{ "relaunch", test_relaunch, 0 },
	{ "users", test_users, EDERA_HV_OWN_KERNEL },
	{ "together", test_together, 0 },
	{ "foreign", test_foreign, 0 },
};
const size_t n_life_tests = ARRAY_SIZE(life_tests);
