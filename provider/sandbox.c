/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

/* As far as this program knows landlock, whatever headers it was built with. */
#define FS_REFER (1ull << 13)       /* ABI 2 */
#define FS_TRUNCATE (1ull << 14)    /* ABI 3 */
#define FS_IOCTL_DEV (1ull << 15)   /* ABI 5 */
#define NET_BIND (1ull << 0)        /* ABI 4 */
#define NET_CONNECT (1ull << 1)
#define SCOPE_ALL 3ull              /* ABI 6: abstract sockets, signals */
#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_MAKE (LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE)

/* mkfs.erofs keeps file data behind the first TiB of its output, in a file of twice that size, until it knows where it belongs. */
#define PROGRAM_FILE_MAX (2ull << 40)

struct ruleset {
	uint64_t fs, net, scoped;
};

/* What libc's name resolution and libcurl's TLS read. */
static const char *const readable[] = {
	"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/ld.so.cache",
	"/etc/localtime", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
	"/usr/share/zoneinfo", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/dev/null", "/dev/urandom", "/dev/random", "/sys/devices/system/cpu", "/proc/sys/vm",
};

static int allow(int ruleset, int fd, uint64_t access, struct edera_error *err)
{
	struct landlock_path_beneath_attr a = { .allowed_access = access, .parent_fd = fd };
	struct stat st;

	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		a.allowed_access &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE | FS_TRUNCATE;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0) < 0)
		return err_errno(err, -errno, "cannot set up the sandbox (landlock)");
	return 0;
}

static int allow_path(int ruleset, const char *path, uint64_t access, struct edera_error *err)
{
	_close_ int fd = open(path, O_PATH | O_CLOEXEC);

	return fd < 0 ? 0 : allow(ruleset, fd, access, err);
}

int sandbox_scope(struct edera_error *err)
{
	struct ruleset r = { .scoped = SCOPE_ALL };
	_close_ int fd = -1;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, -errno, "cannot set up the sandbox");
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 6)
		return 0;
	fd = (int)syscall(SYS_landlock_create_ruleset, &r, sizeof r, 0);
	if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return err_errno(err, -errno, "cannot set up the sandbox (landlock)");
	return 0;
}

/* *ret is the ruleset, or stays -1 where the kernel has no landlock; *ret_rules is what it handles. */
static int new_ruleset(bool network, bool scope, int *ret, struct ruleset *ret_rules, struct edera_error *err)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset r = { .fs = (1ull << 13) - 1 };
	size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;

	if (abi < 1)
		return 0;
	r.fs |= (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0);
	r.net = abi >= 4 ? NET_BIND | (network ? 0 : NET_CONNECT) : 0;
	r.scoped = scope && abi >= 6 ? SCOPE_ALL : 0;
	*ret = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
	*ret_rules = r;
	return *ret < 0 ? err_errno(err, -errno, "cannot set up the sandbox (landlock)") : 0;
}

static int restrict_files(const struct sandbox *s, bool *ret_done, struct edera_error *err)
{
	struct ruleset r;
	_close_ int fd = -1;
	int e = new_ruleset(s->network, !s->scoped, &fd, &r, err);

	if (e || fd < 0)
		return e;
	for (size_t i = 0; i < ARRAY_SIZE(readable) && !e; i++)
		e = allow_path(fd, readable[i], FS_READ, err);
	for (size_t i = 0; s->read[i] && !e; i++)
		e = allow_path(fd, s->read[i], FS_READ, err);
	if (!e && s->write_dir >= 0)
		e = allow(fd, s->write_dir, (FS_READ | FS_MAKE | FS_REFER | FS_TRUNCATE) & r.fs, err);
	if (!e && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		e = err_errno(err, -errno, "cannot set up the sandbox (landlock)");
	*ret_done = !e;
	return e;
}

static const int allowed_calls[] = {
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64), SCMP_SYS(pwrite64), SCMP_SYS(lseek), SCMP_SYS(close),
	SCMP_SYS(fstat), SCMP_SYS(fstatfs), SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(access),
	SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(fcntl), SCMP_SYS(dup),
	SCMP_SYS(pipe2), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(eventfd2), SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(socketpair), SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(sendto),
	SCMP_SYS(recvfrom), SCMP_SYS(sendmsg), SCMP_SYS(recvmsg), SCMP_SYS(sendmmsg), SCMP_SYS(recvmmsg), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt),
	SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(shutdown), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
	SCMP_SYS(brk), SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(set_tid_address), SCMP_SYS(exit), SCMP_SYS(exit_group),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(getpid),
	SCMP_SYS(gettid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(uname), SCMP_SYS(sysinfo),
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep),
	SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(getcpu), SCMP_SYS(getrandom), SCMP_SYS(getrlimit), SCMP_SYS(fallocate),
	SCMP_SYS(ftruncate), SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(fadvise64), SCMP_SYS(fchmod), SCMP_SYS(mkdir), SCMP_SYS(mkdirat),
	SCMP_SYS(sync_file_range), SCMP_SYS(linkat), SCMP_SYS(unlinkat), SCMP_SYS(copy_file_range), SCMP_SYS(restart_syscall), SCMP_SYS(membarrier),
};

/* Where there is a child, which was started before: to end it and to see that it ended. */
static const int child_calls[] = { SCMP_SYS(waitid), SCMP_SYS(pidfd_send_signal) };

static int add_rules(scmp_filter_ctx f, const struct sandbox *s)
{
	/* None of AF_UNIX: behind such sockets are daemons with more rights. Name resolution does without nscd and the like. */
	static const int families[] = { AF_INET, AF_INET6, AF_NETLINK };
	static const unsigned long ioctls[] = { TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(allowed_calls) && !r; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, allowed_calls[i], 0);
	for (size_t i = 0; s->scoped && i < ARRAY_SIZE(child_calls) && !r; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, child_calls[i], 0);
	for (size_t i = 0; s->network && i < ARRAY_SIZE(families) && !r; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	for (size_t i = 0; i < ARRAY_SIZE(ioctls) && !r; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_EQ, ioctls[i]));
	/* Threads, but no processes; clone3 hides its flags from a filter, so libc is sent to clone. */
	if (!r)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	if (!r)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (!r) /* abort() and the like */
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	/* Libraries are loaded for name resolution, but no code is made. */
	if (!r)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (!r)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC));
	if (!r)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (!r)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A2(SCMP_CMP_EQ, 0));
	if (!r)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
	return r;
}

/* A sanitizer's run-time maps terabytes, makes calls of its own, and looks for leaks as a debugger does. */
#ifdef PROTECT_SANITIZED
#define SANITIZED true
/* Landlock lets nobody look into the process, so leaks cannot be looked for. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }
#else
#define SANITIZED false
#endif

static int restrict_calls(const struct sandbox *s, bool *ret_done, struct edera_error *err)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = f ? add_rules(f, s) : -ENOMEM;

	if (!r)
		r = seccomp_load(f);
	if (f)
		seccomp_release(f);
	if (r)
		return err_errno(err, r, "cannot set up the sandbox (seccomp)");
	*ret_done = true;
	return 0;
}

static void limit(int what, uint64_t n)
{
	struct rlimit l = { n, n }, now;

	if (getrlimit((__rlimit_resource_t)what, &now) == 0 && now.rlim_max < n)
		l.rlim_cur = l.rlim_max = now.rlim_max;
	setrlimit((__rlimit_resource_t)what, &l);
}

int sandbox_enter(const struct sandbox *s, char ret[64], struct edera_error *err)
{
	bool files = false, calls = false;
	int r;

	signal(SIGXFSZ, SIG_IGN); /* a file that is too large is an error of write() */
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, 256);
	limit(RLIMIT_FSIZE, s->file_size);
	if (!SANITIZED)
		limit(RLIMIT_AS, s->memory);
	if (!SANITIZED)
		prctl(PR_SET_DUMPABLE, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, -errno, "cannot set up the sandbox");
	r = restrict_files(s, &files, err);
	if (!r && !SANITIZED)
		r = restrict_calls(s, &calls, err);
	if (!r)
		snprintf(ret, 64, "no_new_privs%s%s", files ? ",landlock" : "", calls ? ",seccomp" : "");
	return r;
}

/* The interpreter that the kernel runs for it is among the libraries. */
static int restrict_program(const char *program, int output, struct edera_error *err)
{
	static const char *const libraries[] = { "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib" };
	static const char *const others[] = { "/etc/ld.so.cache", "/dev/null", "/dev/urandom", "/sys/devices/system/cpu", "/proc/sys/vm" };
	struct ruleset r;
	_close_ int fd = -1;
	int e = new_ruleset(false, true, &fd, &r, err);

	if (e || fd < 0)
		return e;
	for (size_t i = 0; i < ARRAY_SIZE(libraries) && !e; i++)
		e = allow_path(fd, libraries[i], FS_READ | LANDLOCK_ACCESS_FS_EXECUTE, err);
	for (size_t i = 0; i < ARRAY_SIZE(others) && !e; i++)
		e = allow_path(fd, others[i], FS_READ, err);
	if (!e)
		e = allow_path(fd, program, FS_READ | LANDLOCK_ACCESS_FS_EXECUTE, err);
	if (!e)
		e = allow(fd, output, (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE) & r.fs, err);
	if (!e && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		e = err_errno(err, -errno, "cannot set up the sandbox (landlock)");
	return e;
}

static int refuse_calls(struct edera_error *err)
{
	static const int refused[] = {
		SCMP_SYS(socket), SCMP_SYS(socketpair), SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
		SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(io_uring_setup), SCMP_SYS(userfaultfd), SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(mount),
		SCMP_SYS(umount2), SCMP_SYS(open_tree), SCMP_SYS(fsopen), SCMP_SYS(move_mount), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(keyctl),
		SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal),
		SCMP_SYS(open_by_handle_at), SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load), SCMP_SYS(reboot),
	};
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int r = f ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(refused) && !r; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
	if (!r)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	if (!r)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (!r)
		r = seccomp_load(f);
	if (f)
		seccomp_release(f);
	return r ? err_errno(err, r, "cannot set up the sandbox (seccomp)") : 0;
}

int sandbox_program(const char *program, int output, uint64_t memory, struct edera_error *err)
{
	int r;

	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, 1024); /* one for each file that waits for its thread */
	limit(RLIMIT_FSIZE, PROGRAM_FILE_MAX);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, -errno, "cannot set up the sandbox");
	r = restrict_program(program, output, err);
	if (!r)
		r = refuse_calls(err);
	if (!r)
		limit(RLIMIT_AS, memory);
	return r;
}
