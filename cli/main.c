/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/tree.h"

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static size_t help_width(FILE *f)
{
	struct winsize ws;

	if (ioctl(fileno(f), TIOCGWINSZ, &ws) < 0 || ws.ws_col < 40)
		return 80;
	return ws.ws_col < 100 ? ws.ws_col : 100;
}

/* "protect help zone launch" is "protect zone launch --help". */
static void rewrite_help(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "help"))
		return;
	for (int i = 1; i + 1 < argc; i++)
		argv[i] = argv[i + 1];
	argv[argc - 1] = (char *)"--help";
}

/* A descriptor of ours in the place of stdin, stdout or stderr would be read from or written to as if it were that. */
static void fill_stdio(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			_exit(1);
}

static int run(struct cli *cli, const struct parsed *p)
{
	const struct command *c = p->path[p->depth - 1];
	struct edera_error err = EDERA_ERROR_INIT;
	int r = c->run(cli, p->args, &p->operands, &err);

	if (r >= 0)
		return r;
	cli_warn("%s", err.msg[0] ? err.msg : strerror(-r));
	return 1;
}

int main(int argc, char **argv)
{
	struct cli cli = { .root = &root_command };
	struct edera_error err = EDERA_ERROR_INIT;
	struct parsed p;
	int r;

	fill_stdio();
	/* Output is UTF-8 whatever the locale; the width of characters is all that is asked of it. */
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		setlocale(LC_CTYPE, "");
	/* A daemon that goes away must not end the program without a word. */
	signal(SIGPIPE, SIG_IGN);
	rewrite_help(argc, argv);
	r = args_parse(&root_command, argc, (const char *const *)argv, &p, &err);
	if (r && p.path[p.depth - 1]->sub && (size_t)argc == p.depth) {
		/* Only the name of a group. */
		help_print(stderr, &p, help_width(stderr));
		r = CLI_USAGE;
	} else if (r) {
		cli_warn("%s", err.msg);
		r = CLI_USAGE;
	} else if (p.global.version) {
		cli_puts("protect " PACKAGE_VERSION);
	} else if (p.global.help) {
		help_print(stdout, &p, help_width(stdout));
		cli_print(&(struct buf)BUF_INIT);
	} else {
		cli.connection = p.global.connection ? p.global.connection : getenv("PROTECT_CONNECTION");
		r = run(&cli, &p);
		cli_close(&cli);
	}
	parsed_free(&p);
	return r;
}
