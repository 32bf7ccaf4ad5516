/* SPDX-License-Identifier: Apache-2.0 */
/* What a hypervisor plugin promises about a VM's streams and disks. */
#include "vm.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NOT_PRINTED "\xff never printed"

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
	CHECK(!read_until(second, NOT_PRINTED, 3000));
}

/* Starts a guest, types the word at its console, and expects the event, and no other end. */
static void end_by_word(const char *word, int expected, int other)
{
	struct edera_vm_info info = { .size = sizeof info };
	struct edera_error err = EDERA_ERROR_INIT;
	_close_ int fd = -1;
	_vm_ struct vm v = { 0 };
	struct event e;

	CHECK_ERR(vm_make(&v, &info, &err) == 0, &err);
	CHECK_ERR(ops->vm_console(inst, CALL, v.id, &fd, &err) == 0, &err);
	CHECK_ERR(ops->vm_start(inst, CALL, v.id, &err) == 0, &err);
	CHECK(read_until(fd, opt->console_text, 60000));
	CHECK(write(fd, word, strlen(word)) > 0 && write(fd, "\n", 1) == 1);
	CHECK(!read_until(fd, NOT_PRINTED, 60000)); /* a guest whose console nobody reads may wait for ever */
	CHECK(host_wait_event(v.id, expected, 10000, &e));
	printf("    reported: %s\n", e.detail);
	CHECK(!host_wait_event(v.id, other, 0, NULL));
	CHECK(ended(v.id));
	CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
	CHECK(times_listed(v.id) == 0 && no_processes(v.id) && count_entries(v.run_dir) == 0);
}

/* The guest ends itself: that is no crash, and what is left of it goes with vm_destroy. */
static void test_power_off(void)
{
	if (opt->power_off)
		end_by_word(opt->power_off, EDERA_VM_EVENT_STOPPED, EDERA_VM_EVENT_CRASHED);
}

static void test_panic(void)
{
	if (opt->panic)
		end_by_word(opt->panic, EDERA_VM_EVENT_CRASHED, EDERA_VM_EVENT_STOPPED);
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

		ask_agent(v.id, &again);
		CHECK(test_failed || again.instance == first.instance);
	}
	CHECK_ERR(ops->vm_channel(inst, CALL, v.id, &fd, &err) == 0, &err);
	CHECK_ERR(agent_power_off(fd, 60000, &err) == 0, &err);
	CHECK(host_wait_event(v.id, EDERA_VM_EVENT_STOPPED, 60000, NULL));
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

static void test_shares(void)
{
	struct edera_share s = { "share-1", opt->work, EDERA_SHARE_READONLY, 0 }, bad = { "Bad Tag", opt->work, 0, 0 };
	struct edera_error err = EDERA_ERROR_INIT;
	_vm_ struct vm v = { 0 };

	CHECK_ERR(vm_make_running(&v, &err) == 0, &err);
	CHECK(ops->share_attach(inst, CALL, v.id, &bad, &err) == -EINVAL);
	CHECK(ops->share_attach(inst, CALL, "00000000-0000-4000-8000-00000000dead", &s, &err) == -ENOENT);
	for (int i = 0; i < 2; i++) {
		CHECK_ERR(ops->share_attach(inst, CALL, v.id, &s, &err) == 0, &err);
		CHECK(ops->share_attach(inst, CALL, v.id, &s, &err) == -EEXIST);
		s.tag = "share-2";
	}
	CHECK_ERR(ops->share_detach(inst, CALL, v.id, "not-there", &err) == 0, &err);
	/* Both stay for vm_destroy: a guest that has no driver for them may never let go of one. */
	CHECK_ERR(ops->vm_destroy(inst, CALL, v.id, &err) == 0, &err);
	CHECK(no_processes(v.id) && count_entries(v.run_dir) == 0);
}

const struct test io_tests[] = {
	{ "console", test_console, EDERA_HV_CONSOLE },
	{ "power-off", test_power_off, EDERA_HV_CONSOLE },
	{ "panic", test_panic, EDERA_HV_CONSOLE },
	{ "channel", test_channel, 0 },
	{ "agent", test_agent, 0 },
	{ "disks", test_disks, EDERA_HV_BLOCK_HOTPLUG },
	{ "many-disks", test_many_disks, EDERA_HV_BLOCK_HOTPLUG },
	{ "shares", test_shares, EDERA_HV_FS_SHARE },
};
const size_t n_io_tests = ARRAY_SIZE(io_tests);
