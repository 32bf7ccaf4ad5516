/* SPDX-License-Identifier: Apache-2.0 */
/* sim-vmm ID RUN_DIR AGENT NAME: one machine of the sim plugin. Descriptor 3 is where it reports: closed without a word means made.
 *
 * SIGUSR1 starts the agent, as PID 1 in namespaces of its own; SIGTERM asks it to shut down; SIGINT ends it. The agent's output
 * is the console; its channel is relayed, so that it can be opened before the agent runs and closed at any byte. One client
 * each at a time, as QEMU has it. Whoever ends sim-vmm, however, ends the agent, and with it every process in there. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct pipe_buf {
	char data[65536];
	size_t from, to;
};

static const char *id, *run_dir, *agent_path, *zone_name;
static int lock_fd = -1, signals = -1;
static int console_listen = -1, console_client = -1, console_agent = -1;
static int channel_listen = -1, channel_client = -1, channel_agent = -1;
static int agent_pidfd = -1;
static struct pipe_buf to_agent, from_agent;

static void die(const char *what)
{
	dprintf(3, "%s: %s", what, strerror(errno));
	_exit(1);
}

static void set_state(char c)
{
	if (pwrite(lock_fd, &c, 1, 0) != 1)
		_exit(1);
}

static struct sockaddr_un address(const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	if (snprintf(sa.sun_path, sizeof sa.sun_path, "%s/%s", run_dir, name) >= (int)sizeof sa.sun_path) {
		errno = ENAMETOOLONG;
		die("the run directory");
	}
	return sa;
}

static int listen_at(const char *name)
{
	struct sockaddr_un sa = address(name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	unlink(sa.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, 8) < 0)
		die("cannot listen");
	return fd;
}

static void take_lock(void)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[4096];

	snprintf(path, sizeof path, "%s/vmm.lock", run_dir);
	lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock_fd < 0 || fcntl(lock_fd, F_SETLK, &fl) < 0)
		die("cannot lock the machine");
	set_state('C');
}

/* Runs in the agent's process, PID 1 of its namespaces. */
static void become_agent(int console)
{
	char channel[sizeof "unix:" + 108], state[4096];
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 3; i++)
		dup2(console, i);
	close(3);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		perror("sim-vmm: cannot prepare the zone's mounts");
	if (sethostname(zone_name, strlen(zone_name)) < 0)
		perror("sim-vmm: cannot set the zone's name");
	snprintf(channel, sizeof channel, "unix:%s/inner.sock", run_dir);
	snprintf(state, sizeof state, "%s/state", run_dir);
	execl(agent_path, "protect-zone-agent", "--no-init", "--channel", channel, "--state-dir", state, (char *)NULL);
	perror("sim-vmm: cannot run the agent");
	_exit(127);
}

static void start_agent(void)
{
	int pair[2];
	pid_t pid;

	if (agent_pidfd >= 0)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0 ||
	    unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET) < 0) {
		set_state('X');
		_exit(1);
	}
	fcntl(pair[1], F_SETFL, 0);
	pid = fork();
	if (pid == 0)
		become_agent(pair[1]);
	close(pair[1]);
	console_agent = pair[0];
	agent_pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
	if (agent_pidfd < 0) {
		set_state('X');
		_exit(1);
	}
	set_state('R');
}

static void end_agent(int sig)
{
	if (agent_pidfd >= 0) {
		syscall(SYS_pidfd_send_signal, agent_pidfd, sig, NULL, 0);
	} else if (sig == SIGKILL) {
		set_state('S');
		_exit(0);
	}
}

/* A zone that powers off ends with 0, or, where it asked the kernel, with SIGINT. */
static void agent_ended(int killed)
{
	siginfo_t si = { 0 };
	int clean;

	waitid(P_PIDFD, (id_t)agent_pidfd, &si, WEXITED);
	clean = killed || (si.si_code == CLD_EXITED ? si.si_status == 0 : si.si_status == SIGINT);
	set_state(clean ? 'S' : 'X');
	_exit(0);
}

static void close_client(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void hang_up(void)
{
	close_client(&channel_client);
	close_client(&channel_agent);
	to_agent.from = to_agent.to = from_agent.from = from_agent.to = 0;
}

/* False: the other end is gone. */
static int fill(struct pipe_buf *b, int fd)
{
	ssize_t n = read(fd, b->data, sizeof b->data);

	b->from = 0;
	b->to = n > 0 ? (size_t)n : 0;
	return n > 0 || (n < 0 && errno == EAGAIN);
}

static int drain(struct pipe_buf *b, int fd)
{
	ssize_t n = write(fd, b->data + b->from, b->to - b->from);

	if (n > 0)
		b->from += (size_t)n;
	return n >= 0 || errno == EAGAIN;
}

static void relay_console(int from, int to)
{
	char data[4096];
	ssize_t n = read(from, data, sizeof data);

	if (n > 0 && to >= 0 && write(to, data, (size_t)n) < 0)
		return; /* nobody reads, or not fast enough: a serial line does not wait */
	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	close_client(from == console_client ? &console_client : &console_agent);
}

/* The agent listens a moment after it has started. */
static void connect_agent(void)
{
	struct sockaddr_un sa = address("inner.sock");
	int fd;

	if (channel_client < 0 || channel_agent >= 0 || agent_pidfd < 0)
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0)
		channel_agent = fd;
	else if (fd >= 0)
		close(fd);
}

static void relay_channel(short client, short agent)
{
	int ok = 1;

	if (agent & POLLOUT)
		ok = drain(&to_agent, channel_agent);
	if (ok && client & POLLOUT)
		ok = drain(&from_agent, channel_client);
	if (ok && channel_agent >= 0 && to_agent.from == to_agent.to && client & (POLLIN | POLLHUP))
		ok = fill(&to_agent, channel_client);
	if (ok && from_agent.from == from_agent.to && agent & (POLLIN | POLLHUP))
		ok = fill(&from_agent, channel_agent);
	if (!ok || client & POLLERR || (channel_agent < 0 && client & POLLHUP))
		hang_up();
}

static short wants(const struct pipe_buf *out, const struct pipe_buf *in)
{
	return (short)((in->from == in->to ? POLLIN : 0) | (out->from < out->to ? POLLOUT : 0));
}

static void run(void)
{
	int killed = 0;

	for (;;) {
		struct pollfd pf[] = {
			{ .fd = signals, .events = POLLIN },
			{ .fd = agent_pidfd, .events = POLLIN },
			{ .fd = console_client < 0 ? console_listen : console_client, .events = POLLIN },
			{ .fd = console_agent, .events = POLLIN },
			{ .fd = channel_client < 0 ? channel_listen : channel_client,
			  .events = channel_client < 0 ? POLLIN : channel_agent < 0 ? 0 : wants(&from_agent, &to_agent) },
			{ .fd = channel_agent, .events = wants(&to_agent, &from_agent) },
		};
		struct signalfd_siginfo si;

		poll(pf, 6, channel_client >= 0 && channel_agent < 0 && agent_pidfd >= 0 ? 1 : -1);
		if (pf[3].revents)
			relay_console(console_agent, console_client);
		if (pf[1].revents)
			agent_ended(killed);
		if (pf[0].revents && read(signals, &si, sizeof si) == sizeof si) {
			killed |= si.ssi_signo == SIGINT;
			if (si.ssi_signo == SIGUSR1)
				start_agent();
			else
				end_agent(si.ssi_signo == SIGTERM ? SIGTERM : SIGKILL);
		}
		if (pf[2].revents && console_client < 0)
			console_client = accept4(console_listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		else if (pf[2].revents)
			relay_console(console_client, console_agent);
		if (channel_client < 0 && pf[4].revents)
			channel_client = accept4(channel_listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		else if (channel_client >= 0)
			relay_channel(pf[4].revents, pf[5].revents);
		connect_agent();
	}
}

int main(int argc, char **argv)
{
	sigset_t set;

	if (argc != 5)
		return 2;
	id = argv[1];
	run_dir = argv[2];
	agent_path = argv[3];
	zone_name = argv[4];
	(void)id; /* on the command line for whoever looks for the processes of a VM */
	fcntl(3, F_SETFD, FD_CLOEXEC);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		die("signals");
	take_lock();
	console_listen = listen_at("console.sock");
	channel_listen = listen_at("agent.sock");
	close(3);
	run();
}
