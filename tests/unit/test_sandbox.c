/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker can still do once it is in its sandbox. A child enters it and stays in it; its parent cleans up. */
#include "sandbox.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <CUnit/Basic.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/sandbox.XXXXXX", allowed[64], secret[64], made[64], sandbox[64];
static int output = -1, lent = -1;
static bool files, calls;

static int refused(int r) { return r < 0 && (errno == EACCES || errno == EPERM || errno == EAFNOSUPPORT || errno == ENOSYS); }

static void test_files(void)
{
	char c;

	if (!files)
		return;
	CU_ASSERT(refused(open(secret, O_RDONLY)));
	CU_ASSERT(refused(open(secret, O_WRONLY)));
	CU_ASSERT(refused(open("/etc/passwd", O_RDONLY)));
	CU_ASSERT(refused(open("/proc/self/mem", O_RDWR)));
	CU_ASSERT(refused(open("/dev/kmsg", O_WRONLY)));
	CU_ASSERT(refused(open(made, O_CREAT | O_WRONLY, 0600)));
	CU_ASSERT(refused(open(dir, O_TMPFILE | O_RDWR, 0600)));
	CU_ASSERT(refused(mkdirat(AT_FDCWD, made, 0700)));
	CU_ASSERT(refused(unlinkat(AT_FDCWD, secret, 0)));
	CU_ASSERT(refused(truncate(secret, 0)));
	CU_ASSERT(refused(rename(secret, made)));
	_close_ int fd = open(allowed, O_RDONLY);

	CU_ASSERT(fd >= 0 && read(fd, &c, 1) == 1);
	CU_ASSERT(refused(open(allowed, O_WRONLY)));
}

static void test_descriptors(void)
{
	char c = 0;

	CU_ASSERT_EQUAL(pwrite(output, "x", 1, 0), 1);
	CU_ASSERT_EQUAL(pread(output, &c, 1, 0), 1);
	CU_ASSERT_EQUAL(ftruncate(output, 0), 0);
	_close_ int fd = openat(lent, "new", O_CREAT | O_WRONLY, 0600);

	CU_ASSERT(fd >= 0);
	CU_ASSERT_EQUAL(linkat(lent, "new", lent, "again", 0), 0);
	CU_ASSERT_EQUAL(unlinkat(lent, "new", 0), 0);
	CU_ASSERT_EQUAL(unlinkat(lent, "again", 0), 0);
}

/* What a program that has been taken over would like to have. */
static const long denied[] = {
	SYS_execve, SYS_execveat, SYS_clone3, SYS_memfd_create, SYS_memfd_secret, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_open, SYS_pidfd_getfd,
	SYS_pidfd_send_signal, SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_unshare, SYS_setns, SYS_pivot_root, SYS_chroot, SYS_mount,
	SYS_umount2, SYS_move_mount, SYS_open_tree, SYS_fsopen, SYS_fsmount, SYS_mount_setattr, SYS_swapon, SYS_reboot, SYS_init_module, SYS_finit_module,
	SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load, SYS_bpf, SYS_perf_event_open, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
	SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setresuid, SYS_setresgid, SYS_setgroups, SYS_setfsuid,
	SYS_capset, SYS_personality, SYS_ptrace, SYS_seccomp, SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_openat2, SYS_mknodat, SYS_symlinkat, SYS_renameat2,
	SYS_fchmodat, SYS_fchownat, SYS_fchown, SYS_setxattr, SYS_fsetxattr, SYS_utimensat, SYS_truncate, SYS_chdir, SYS_fchdir, SYS_fanotify_init, SYS_inotify_init1,
	SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_sethostname, SYS_quotactl, SYS_acct, SYS_lookup_dcookie, SYS_move_pages, SYS_mbind,
	SYS_vmsplice, SYS_splice, SYS_tee, SYS_sendfile, SYS_listen, SYS_accept4, SYS_setsid, SYS_setpgid, SYS_setpriority, SYS_sched_setscheduler, SYS_setrlimit,
	SYS_pkey_mprotect, SYS_remap_file_pages, SYS_shmget, SYS_msgget, SYS_semget, SYS_mq_open, SYS_kcmp, SYS_landlock_restrict_self, SYS_wait4, SYS_waitid,
};

static void test_calls(void)
{
	char *const argv[] = { "/bin/true", NULL };

	CU_ASSERT(refused(execv("/bin/true", argv)));
	if (!calls)
		return;
	CU_ASSERT(refused((int)syscall(SYS_fork)));
	CU_ASSERT(refused((int)syscall(SYS_vfork)));
	CU_ASSERT(refused((int)syscall(SYS_clone, 0, 0, 0, 0, 0)));
	CU_ASSERT(refused((int)ptrace(PTRACE_TRACEME, 0, 0, 0)));
	CU_ASSERT(refused(mount("x", "/mnt", "tmpfs", 0, NULL)));
	CU_ASSERT(refused(socket(AF_PACKET, SOCK_RAW, 0)));
	CU_ASSERT(refused(socket(AF_VSOCK, SOCK_STREAM, 0)));
	CU_ASSERT(refused(setuid(0)));
	CU_ASSERT(refused(chmod(secret, 0777)));
	CU_ASSERT(refused(kill(getppid(), 0)));
	CU_ASSERT(refused((int)syscall(SYS_io_uring_setup, 1, NULL)));
	CU_ASSERT(refused((int)syscall(SYS_bpf, 0, NULL, 0)));
	CU_ASSERT(refused((int)syscall(SYS_userfaultfd, 0)));
	for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
		if (!refused((int)syscall(denied[i], -1L, 0L, 0L, 0L, 0L, 0L))) {
			CU_FAIL("a system call that nobody needs is allowed");
			printf("system call %ld: %s\n", denied[i], strerror(errno));
		}
	CU_ASSERT(refused((int)syscall(SYS_tgkill, getppid(), getppid(), 0)));
	CU_ASSERT(refused((int)syscall(SYS_prlimit64, 0, RLIMIT_CORE, &(struct rlimit){ 0, 0 }, NULL)));
	CU_ASSERT(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CU_ASSERT(p != MAP_FAILED);
	CU_ASSERT(refused(mprotect(p, 4096, PROT_READ | PROT_EXEC)));
}

static void *run(void *user) { return user; }

static void test_threads(void)
{
	void *r = NULL;
	pthread_t t;

	CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, run, dir), 0);
	pthread_join(t, &r);
	CU_ASSERT_EQUAL(r, dir);
}

static void test_limits(void)
{
	struct rlimit l;
	int fd, n = 0;

	CU_ASSERT(getrlimit(RLIMIT_CORE, &l) == 0 && l.rlim_cur == 0);
	CU_ASSERT(pwrite(output, "x", 1, 2 << 20) < 0 && errno == EFBIG);
	while ((fd = dup(output)) >= 0 && n < 1000)
		n++;
	CU_ASSERT(n < 256);
	for (fd = 3; fd < 256; fd++)
		if (fd != output && fd != lent)
			close(fd);
}

/* Local images need no network. */
static void test_network(void)
{
	_close_ int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in { sa_family_t family; uint16_t port; uint32_t address; char rest[8]; } a = { AF_INET, 0x0100, 0x0100007f, { 0 } };

	if (calls) {
		CU_ASSERT(fd < 0);
		CU_ASSERT(refused(socket(AF_INET6, SOCK_DGRAM, 0)));
		CU_ASSERT(refused(socket(AF_UNIX, SOCK_STREAM, 0)));
		CU_ASSERT(refused(socket(AF_NETLINK, SOCK_RAW, 0)));
	}
	if (!files || fd < 0)
		return;
	CU_ASSERT(connect(fd, (struct sockaddr *)&a, sizeof a) < 0 && (errno == EACCES || errno == ECONNREFUSED)); /* refused by kernels without that rule */
}

static void put(const char *path)
{
	_close_ int fd = open(path, O_CREAT | O_WRONLY, 0600);

	(void)!write(fd, "secret", 6);
}

static int enter(void)
{
	struct sandbox s = { .write_dir = -1, .read = { allowed }, .network = false, .file_size = 1 << 20, .memory = 4ull << 30 };
	struct edera_error err = EDERA_ERROR_INIT;
	char sub[64];

	snprintf(allowed, sizeof allowed, "%s/allowed", dir);
	snprintf(secret, sizeof secret, "%s/secret", dir);
	snprintf(made, sizeof made, "%s/made", dir);
	snprintf(sub, sizeof sub, "%s/lent", dir);
	put(allowed);
	put(secret);
	output = open(dir, O_TMPFILE | O_RDWR, 0600);
	mkdir(sub, 0700);
	lent = open(sub, O_RDONLY | O_DIRECTORY);
	s.write_dir = lent;
	if (output < 0 || lent < 0 || sandbox_enter(&s, sandbox, &err)) {
		printf("%s\n", err.msg);
		return -1;
	}
	files = strstr(sandbox, "landlock");
	calls = strstr(sandbox, "seccomp");
	printf("in force: %s\n", sandbox);
	return 0;
}

static int run_tests(void)
{
	static const CU_TestInfo tests[] = {
		{ "files", test_files }, { "descriptors", test_descriptors }, { "calls", test_calls }, { "threads", test_threads },
		{ "network", test_network }, { "limits", test_limits }, CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { "sandbox", NULL, NULL, NULL, NULL, (CU_TestInfo *)tests }, CU_SUITE_INFO_NULL };

	if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
		return 2;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	if (enter())
		return 2;
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();

	CU_cleanup_registry();
	fflush(stdout);
	return failed != 0;
}

/* The other ways into the kernel: a child tries one in the sandbox, and must die of it or be refused. */
static int other_way(int way)
{
	long r = -1;

	if (enter())
		return 2;
	if (!calls)
		return 0;
#ifdef __x86_64__
	if (way == 0)
		r = syscall(0x40000000 + SYS_getpid);           /* x32 */
	else
		__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L)); /* getpid of i386 */
#endif
	return r > 0;
}

static int try_other_ways(void)
{
	for (int way = 0; way < 2; way++) {
		pid_t child = fork();
		int status = 0;

		if (child == 0)
			_exit(other_way(way));
		if (child < 0 || waitpid(child, &status, 0) != child || (WIFEXITED(status) && WEXITSTATUS(status))) {
			printf("a system call of another architecture was answered\n");
			return 1;
		}
	}
	return 0;
}

int main(void)
{
	int status = 0;
	pid_t child;

	if (!mkdtemp(dir))
		return 2;
	child = fork();
	if (child == 0)
		_exit(run_tests());
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 2;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		status = try_other_ways() << 8;
	path_remove_tree(dir, NULL);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
