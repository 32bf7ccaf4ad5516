/* SPDX-License-Identifier: Apache-2.0 */
/* A mkfs.erofs that does wrong what its name, behind the last dash, says. It tells the version of a good one. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void drain(void)
{
	char space[4096];

	while (read(STDIN_FILENO, space, sizeof space) > 0)
		;
}

static void could(const char *what)
{
	fprintf(stderr, "<E> fake: main() Line[1] it could %s\n", what);
}

static void look_around(void)
{
	pid_t pid;

	if (open("/etc/passwd", O_RDONLY) >= 0)
		could("read /etc/passwd");
	if (open("/tmp/fake-mkfs.file", O_CREAT | O_WRONLY, 0600) >= 0)
		could("make a file");
	if (open("/proc/1/environ", O_RDONLY) >= 0)
		could("look at another process");
	if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0)
		could("make a socket");
	pid = fork();
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		could("fork");
	if (kill(getppid(), 0) == 0)
		could("signal its parent");
	execl("/bin/true", "true", (char *)NULL);
	if (errno != EACCES)
		could("look for a program");
	fprintf(stderr, "<E> fake: main() Line[1] looked around\n");
}

int main(int argc, char **argv)
{
	const char *what = strrchr(argv[0], '-');

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "-V")) {
			puts(what && !strcmp(what, "-old") ? "mkfs.erofs (erofs-utils) 1.7.1" : "mkfs.erofs (erofs-utils) 1.9.0\navailable compressors: lz4, zstd");
			if (what && !strcmp(what, "-mute"))
				pause();
			return 0;
		}
	if (!what || ftruncate(3, 2ll << 40) < 0) /* as the real one does first */
		return 1;
	if (!strcmp(what, "-fail")) {
		fprintf(stderr, "<E> fake: main() Line[7] the moon is full\n<E> fake: main() Line[8] more\n");
		return 1;
	}
	if (!strcmp(what, "-late")) {
		drain();
		fprintf(stderr, "<E> fake: main() Line[7] the sun is up\n");
		return 0;
	}
	if (!strcmp(what, "-silent"))
		return 3;
	if (!strcmp(what, "-signal"))
		raise(SIGSEGV);
	if (!strcmp(what, "-garbage")) {
		drain();
		return 0;
	}
	if (!strcmp(what, "-full")) {
		drain();
		fprintf(stderr, "<E> fake: main() Line[7] failed to write: No space left on device\n");
	}
	if (!strcmp(what, "-flood")) {
		while (fprintf(stderr, "<W> fake: one of many lines that nobody reads\n") > 0 && !ferror(stderr))
			;
		return 1;
	}
	if (!strcmp(what, "-nosy")) {
		look_around();
		return 1;
	}
	for (;;)
		pause();
}
