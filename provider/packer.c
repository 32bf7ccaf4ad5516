/* SPDX-License-Identifier: Apache-2.0 */
#include "packer.h"
#include "options.h"
#include "sandbox.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/text.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define FD_OUTPUT 3
#define OUTPUT "/proc/self/fd/3"
#define NO_UUID "00000000-0000-0000-0000-000000000000"
#define SAID_MAX 16384           /* of what the program says, its beginning */
#define MEMORY_BASE (1ull << 30)
#define MEMORY_ENTRY 4096        /* what it takes an entry, generously */
#define PROBE_SECONDS 10
#define LOOK_MS 300              /* how often it is looked at while it is waited for */
#define IDLE_MS 90000            /* without taking CPU time */
#define END_MS 5000              /* to be gone after it was killed */
#define FULL (128u << 10)        /* less than this is left on a disk that is full */
/* The first release that reads a tar, keeps what ours holds, and makes the same bytes of it each time. */
#define NEEDED "1.8.4"
/* A release that is known to notice when it cannot write file data. 1.8.6 does not. */
#define CAREFUL "1.9.4"
/* Where it keeps file data, each file from a block on, until it knows where that belongs; its output is twice as long from the start. */
#define KEPT_AT (1ull << 40)
#define RESERVE_STEP (1ull << 20)
#define LAYOUT_MS 10000          /* to have begun its output */
#define EROFS_MAGIC 0xe0f5e1e2u
#define EROFS_MAGIC_AT 1024

struct packer {
	char program[PATH_CAP];
	bool lz4, careful, blind;
	uint64_t kept, reserved, align; /* of file data; align: 0 at first */
	uint64_t memory;
	int output, in, said, stop, pidfd;
	pid_t pid;
	clockid_t clock;
};

static const char *const places[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin" };

static int find(struct packer *p, const char *named, struct edera_error *err)
{
	if (named && access(named, X_OK) == 0)
		return path_format(p->program, err, "%s", named);
	if (named)
		return err_errno(err, -errno, "cannot use '%s' to make an erofs image (--mkfs-erofs)", named);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (!path_format(p->program, NULL, "%s/mkfs.erofs", places[i]) && access(p->program, X_OK) == 0)
			return 0;
	return err_set(err, -ENOTSUP, "erofs images are made by mkfs.erofs, which is not installed; erofs-utils " NEEDED " or newer is needed (Debian 13 has it)");
}

/* A file of fixed size, so that nothing the program says can take more, nor make it wait. */
static int open_said(struct packer *p, struct edera_error *err)
{
	p->said = memfd_create("mkfs.erofs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (p->said < 0 || ftruncate(p->said, SAID_MAX) < 0 || fcntl(p->said, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
		return err_errno(err, -errno, "cannot start mkfs.erofs");
	return 0;
}

static void read_said(const struct packer *p, char dst[SAID_MAX + 1])
{
	ssize_t n = pread(p->said, dst, SAID_MAX, 0);

	dst[n > 0 ? n : 0] = 0;
	text_force_utf8(dst);
}

static int run(struct packer *p, const char *const *more, int in, int out, int output, struct edera_error *err)
{
	char self[PATH_CAP], memory[32];
	const char *args[16] = { self, PACKER_WORD, memory, p->program };
	int fds[] = { in, out, p->said, output };
	struct edera_spawn s = { .size = sizeof s, .argv = args, .fds = fds, .n_fds = ARRAY_SIZE(fds) };
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (n < 0)
		return err_errno(err, -errno, "cannot start mkfs.erofs");
	self[n] = 0;
	snprintf(memory, sizeof memory, "%llu", (unsigned long long)p->memory);
	for (size_t i = 0; more[i]; i++)
		args[4 + i] = more[i];
	return spawn(&s, &p->pidfd, &p->pid, err);
}

static bool at_least(const char *version, const char *wanted)
{
	unsigned have[3] = { 0 }, need[3] = { 0 };

	sscanf(version, "%u.%u.%u", &have[0], &have[1], &have[2]);
	sscanf(wanted, "%u.%u.%u", &need[0], &need[1], &need[2]);
	for (int i = 0; i < 3; i++)
		if (have[i] != need[i])
			return have[i] > need[i];
	return true;
}

/* Old ones do not know the option, but tell their version all the same. */
static int probe(struct packer *p, struct edera_error *err)
{
	static const char *const version[] = { "-V", NULL };
	struct timespec now;
	struct edera_call soon = { .size = sizeof soon, .cancel_fd = -1 };
	char said[SAID_MAX + 1], word[32];
	const char *at, *compressors;
	int status, r = open_said(p, err);

	clock_gettime(CLOCK_MONOTONIC, &now);
	soon.deadline_ns = (now.tv_sec + PROBE_SECONDS) * INT64_C(1000000000);
	if (!r)
		r = run(p, version, -1, p->said, -1, err);
	if (!r) {
		r = spawn_wait(p->pidfd, p->pid, &soon, &status, err);
		p->pidfd = -1;
	}
	if (r)
		return err_wrap(err, "'%s' does not tell its version", p->program);
	read_said(p, said);
	close(steal_fd(&p->said));
	at = strstr(said, "mkfs.erofs ");
	if (at)
		at = strpbrk(at, "0123456789");
	if (!at || sscanf(at, "%31[0-9.]", word) != 1)
		return err_set(err, -ENOTSUP, "'%s' is not mkfs.erofs: asked for its version, it says '%.100s'", p->program, strtok(said, "\n") ?: "");
	if (!at_least(word, NEEDED))
		return err_set(err, -ENOTSUP, "'%s' is version %s, which cannot make an erofs image of a tar; erofs-utils " NEEDED " or newer is needed (Debian 13 has it)",
			       p->program, word);
	p->careful = at_least(word, CAREFUL);
	compressors = strstr(said, "compressors:");
	p->lz4 = compressors && strstr(compressors, "lz4");
	return 0;
}

/* lz4 is the compression that every kernel with erofs reads; it, and the sizes of blocks, decide the bytes, and so are fixed. */
static int start(struct packer *p, struct edera_error *err)
{
	static const char *const lz4[] = { "--tar=f", "--quiet", "-d1", "-b4096", "-T0", "--mkfs-time", "-U" NO_UUID, OUTPUT, "-zlz4", "-C65536", NULL };
	static const char *const plain[] = { "--tar=f", "--quiet", "-d1", "-b4096", "-T0", "--mkfs-time", "-U" NO_UUID, OUTPUT, NULL };
	_close_ int end = -1;
	int fds[2], r = open_said(p, err);

	if (r)
		return r;
	p->stop = eventfd(0, EFD_CLOEXEC);
	if (p->stop < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot start mkfs.erofs");
	end = fds[0];
	p->in = fds[1];
	if (fcntl(p->in, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, -errno, "cannot start mkfs.erofs");
	fcntl(p->in, F_SETPIPE_SZ, 1 << 20); /* fewer wake-ups; if that is too much for the user's limit, so be it */
	r = run(p, p->lz4 ? lz4 : plain, end, -1, p->output, err);
	if (!r && clock_getcpuclockid(p->pid, &p->clock))
		r = err_set(err, -EIO, "cannot watch mkfs.erofs");
	return r;
}

int packer_start(const struct options *o, struct packer **ret, struct edera_error *err)
{
	struct packer *p = calloc(1, sizeof *p);
	int r;

	if (!p)
		return err_errno(err, -ENOMEM, "cannot start mkfs.erofs");
	*p = (struct packer){ .output = o->output_fd, .memory = MEMORY_BASE + (uint64_t)o->max_entries * MEMORY_ENTRY, .in = -1, .said = -1, .stop = -1, .pidfd = -1 };
	r = find(p, o->mkfs_erofs, err);
	if (!r)
		r = probe(p, err);
	if (!r)
		r = start(p, err);
	if (r)
		packer_free(p);
	else
		*ret = p;
	return r;
}

/* The first thing it said, without the place in its source. */
static const char *complaint(char *said)
{
	char *line = said + strspn(said, "\n\t "), *place = NULL;

	line[strcspn(line, "\n")] = 0;
	if (text_starts(line, "<E> "))
		place = strstr(line, "] ");
	return place ? place + 2 : line;
}

/* Write errors do not always end it: some releases wait for themselves then. What it complains about it has not done well. */
static bool complains(const struct packer *p)
{
	char said[SAID_MAX + 1];

	read_said(p, said);
	return strstr(said, "<E> ");
}

/* Why it failed (with this status), or is about to. */
static int failed(struct packer *p, int status, struct edera_error *err)
{
	char said[SAID_MAX + 1];
	const char *why;
	struct statfs fs;
	bool full;

	read_said(p, said);
	/* A write that fails may show as something else first, a crash included. */
	full = strstr(said, strerror(ENOSPC)) || (fstatfs(p->output, &fs) == 0 && fs.f_bavail * (uint64_t)fs.f_bsize < FULL);
	if (status > 128 && !full)
		return err_set(err, -EIO, "mkfs.erofs was ended by signal %d (%s) while it wrote the image", status - 128, strsignal(status - 128));
	why = full ? strerror(ENOSPC) : complaint(said);
	return err_set(err, full ? -ENOSPC : -EIO, "mkfs.erofs could not write the image: %.300s", *why ? why : "it does not say why");
}

/* It has ended, or said that it fails. */
static int ended(struct packer *p, bool complete, struct edera_error *err)
{
	struct pollfd f = { .fd = p->pidfd, .events = POLLIN };
	int status, r;

	if (poll(&f, 1, LOOK_MS) != 1)
		return failed(p, 0, err);
	r = spawn_wait(p->pidfd, p->pid, NULL, &status, err);
	p->pidfd = -1;
	if (r || (complete && status == 0 && !complains(p)))
		return r;
	return failed(p, status, err);
}

/* CPU time it has taken, in nanoseconds. */
static int64_t busy(const struct packer *p)
{
	struct timespec t = { 0 };

	clock_gettime(p->clock, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* 0: what is asked for can be done; 1: not any more, since it ends or has failed. */
static int wait_for(struct packer *p, int fd, short what, struct edera_error *err)
{
	struct pollfd f[2] = { { .fd = fd, .events = what }, { .fd = p->stop, .events = POLLIN } };
	int64_t before = busy(p);
	int idle = 0, n;

	while ((n = poll(f, 2, LOOK_MS)) <= 0) {
		if (n < 0 && errno != EINTR)
			return err_errno(err, -errno, "cannot wait for mkfs.erofs");
		if (complains(p))
			return 1;
		idle = busy(p) > before ? 0 : idle + LOOK_MS;
		before = busy(p);
		if (idle > IDLE_MS)
			return err_set(err, -ETIMEDOUT, "mkfs.erofs does nothing any more: it was given up after %d seconds", IDLE_MS / 1000);
	}
	return f[1].revents ? err_set(err, -ECANCELED, "mkfs.erofs was not waited for any longer") : 0;
}

/* Nothing is reserved. */
static int do_without(struct packer *p, const char *why, struct edera_error *err)
{
	p->blind = true;
	return p->careful ? 0 : err_set(err, -EOPNOTSUPP, "cannot write an erofs image: %s, and a full disk would go unnoticed; erofs-utils " CAREFUL " or newer can do without", why);
}

static int find_layout(struct packer *p, struct edera_error *err)
{
	struct pollfd f = { .fd = p->pidfd, .events = POLLIN };
	struct stat st;

	for (int waited = 0; waited < LAYOUT_MS; waited += 10) {
		if (fstat(p->output, &st) < 0)
			return err_errno(err, -errno, "cannot look at the image");
		p->align = st.st_blksize > sysconf(_SC_PAGESIZE) ? (uint64_t)st.st_blksize : (uint64_t)sysconf(_SC_PAGESIZE);
		if (st.st_size == 2 * (off_t)KEPT_AT)
			return 0;
		if (poll(&f, 1, 10) == 1 || complains(p))
			return ended(p, false, err);
	}
	return do_without(p, "mkfs.erofs does not keep file data where it is expected", err);
}

/* A full disk would go unnoticed by some releases, and be told badly by others: the space is taken before it is written to. */
int packer_reserve(struct packer *p, uint64_t size, struct edera_error *err)
{
	uint64_t more;
	int r = p->align ? 0 : find_layout(p, err);

	if (r || p->blind || size == 0)
		return r;
	p->kept = (p->kept + p->align - 1) / p->align * p->align + size;
	if (p->kept <= p->reserved)
		return 0;
	more = (p->kept - p->reserved + RESERVE_STEP - 1) / RESERVE_STEP * RESERVE_STEP;
	if (fallocate(p->output, FALLOC_FL_KEEP_SIZE, (off_t)(KEPT_AT + p->reserved), (off_t)more) < 0)
		return errno == EOPNOTSUPP ? do_without(p, "the file system cannot reserve space", err) : err_errno(err, -errno, "cannot take space for an erofs image");
	p->reserved += more;
	return 0;
}

int packer_write(struct packer *p, const void *data, size_t n, struct edera_error *err)
{
	const uint8_t *at = data;

	while (n > 0) {
		int r = wait_for(p, p->in, POLLOUT, err);
		ssize_t done = r ? 0 : write(p->in, at, n);

		if (r < 0)
			return r;
		if (r > 0 || (done < 0 && errno == EPIPE))
			return ended(p, false, err);
		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return err_errno(err, -errno, "cannot hand the image to mkfs.erofs");
		if (done > 0) {
			at += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

int packer_finish(struct packer *p, struct edera_error *err)
{
	uint32_t magic = 0;
	int r;

	close(steal_fd(&p->in));
	r = wait_for(p, p->pidfd, POLLIN, err);
	if (r >= 0)
		r = ended(p, true, err);
	if (!r && (pread(p->output, &magic, sizeof magic, EROFS_MAGIC_AT) != (ssize_t)sizeof magic || le32toh(magic) != EROFS_MAGIC))
		r = err_set(err, -EIO, "mkfs.erofs ended well, but what it wrote is no erofs image");
	return r;
}

void packer_free(struct packer *p)
{
	struct pollfd f = { .fd = p ? p->pidfd : -1, .events = POLLIN };
	int status;

	if (!p)
		return;
	/* If it does not end at once, it does so with us. */
	if (p->pidfd >= 0 && syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0) == 0 && poll(&f, 1, END_MS) == 1) {
		spawn_wait(p->pidfd, p->pid, NULL, &status, NULL);
		p->pidfd = -1;
	}
	close_fd(&p->pidfd);
	close_fd(&p->in);
	close_fd(&p->said);
	close_fd(&p->stop);
	free(p);
}

void packer_abort(struct packer *p)
{
	uint64_t one = 1;

	if (p)
		(void)!write(p->stop, &one, sizeof one);
}

int packer_main(char **args)
{
	struct edera_error err = EDERA_ERROR_INIT;
	uint64_t memory;

	if (!args[0] || !args[1] || text_parse_u64(args[0], 0, UINT64_MAX, &memory))
		return 2;
	/* The worker is its only reason to be. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sandbox_program(args[1], FD_OUTPUT, memory, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	execv(args[1], args + 1);
	fprintf(stderr, "it cannot be started: %s\n", strerror(errno));
	return 1;
}
