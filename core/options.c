/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"
#include "base/log.h"
#include "base/text.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"Usage: protect-daemon [OPTION]...\n"
	"Owns the zones and workloads of this node and serves them to `protect` and others.\n\n"
	"  -c, --config FILE         configuration (default: daemon.toml in the data directory)\n"
	"      --data-dir DIR        what survives reboots (default: " PROTECT_DATA_DIR ")\n"
	"      --run-dir DIR         what does not (default: " PROTECT_RUN_DIR "; with --data-dir, a directory of its own below it)\n"
	"  -l, --listen ADDRESS      socket to serve on, unix:///PATH; may be repeated\n"
	"                            (default: daemon.socket in the data directory, and in " PROTECT_RUN_DIR ")\n"
	"      --check-config [FILE] say whether the configuration is right, and end\n"
	"      --log-level LEVEL     error, warning, info or debug (default: as configured)\n"
	"  -h, --help                this text\n"
	"  -V, --version             version\n\n"
	"SIGHUP applies a changed configuration. Zones outlive the daemon: it finds them again when it starts.\n";

enum { OPT_DATA = 256, OPT_RUN, OPT_CHECK, OPT_LEVEL };

static const struct option longs[] = {
	{ "config", required_argument, NULL, 'c' },     { "data-dir", required_argument, NULL, OPT_DATA }, { "run-dir", required_argument, NULL, OPT_RUN },
	{ "listen", required_argument, NULL, 'l' },     { "check-config", optional_argument, NULL, OPT_CHECK },
	{ "log-level", required_argument, NULL, OPT_LEVEL }, { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' }, { NULL, 0, NULL, 0 },
};

static int __attribute__((format(printf, 1, 2))) wrong(const char *fmt, ...)
{
	va_list ap;

	fputs("protect-daemon: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("; see protect-daemon --help\n", stderr);
	return -EINVAL;
}

/* Directories are kept absolute and without a trailing slash. */
static int absolute(char dst[PATH_CAP], const char *src)
{
	char cwd[PATH_CAP] = "";
	struct edera_error err = EDERA_ERROR_INIT;
	size_t n;

	if (*src != '/' && !getcwd(cwd, sizeof cwd))
		return wrong("cannot tell the current directory for '%s'", src);
	if (path_format(dst, &err, "%s%s%s", cwd, *src == '/' ? "" : "/", src))
		return wrong("%s", err.msg);
	for (n = strlen(dst); n > 1 && dst[n - 1] == '/'; n--)
		dst[n - 1] = 0;
	return 0;
}

static int add_listen(struct options *o, const char *address)
{
	const char *path = text_starts(address, "unix://") ? address + 7 : text_starts(address, "unix:") ? address + 5 : address;

	if (*path != '/')
		return wrong("cannot listen on '%s': an address looks like unix:///run/edera/daemon.socket", address);
	if (o->n_listen == sizeof o->listen / sizeof o->listen[0])
		return wrong("cannot listen on '%s': too many addresses", address);
	o->listen[o->n_listen++] = path;
	return 0;
}

static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261u;

	while (*s)
		h = (h ^ (uint8_t)*s++) * 16777619u;
	return h;
}

static int fill_defaults(struct options *o)
{
	struct edera_error err = EDERA_ERROR_INIT;
	int r = 0;

	o->own_instance = *o->data_dir && strcmp(o->data_dir, PROTECT_DATA_DIR);
	if (!*o->data_dir)
		strcpy(o->data_dir, PROTECT_DATA_DIR);
	o->own_run_dir = o->own_instance && !*o->run_dir;
	if (!*o->run_dir)
		r = o->own_instance ? path_format(o->run_dir, &err, "%s/i-%08x", PROTECT_RUN_DIR, hash(o->data_dir)) : path_format(o->run_dir, &err, "%s", PROTECT_RUN_DIR);
	if (!r && !*o->config)
		r = path_format(o->config, &err, "%s/daemon.toml", o->data_dir);
	return r ? wrong("%s", err.msg) : 0;
}

int options_parse(struct options *o, int argc, char **argv)
{
	int c, r = 0;

	memset(o, 0, sizeof *o);
	opterr = 0;
	while (!r && (c = getopt_long(argc, argv, ":c:l:hV", longs, NULL)) != -1) {
		switch (c) {
		case 'c': r = absolute(o->config, optarg); break;
		case OPT_DATA: r = absolute(o->data_dir, optarg); break;
		case OPT_RUN: r = absolute(o->run_dir, optarg); break;
		case 'l': r = add_listen(o, optarg); break;
		case OPT_CHECK:
			o->check_config = true;
			if (!optarg && optind < argc && argv[optind][0] != '-')
				optarg = argv[optind++];
			r = optarg ? absolute(o->config, optarg) : 0;
			break;
		case OPT_LEVEL:
			o->log_level = log_parse_level(optarg);
			r = o->log_level < 0 ? wrong("unknown log level '%s': error, warning, info or debug", optarg) : 0;
			break;
		case 'h': fputs(usage, stdout); return 1;
		case 'V': puts("protect-daemon " PACKAGE_VERSION); return 1;
		case ':': return wrong("the option '%s' needs a value", argv[optind - 1]);
		default: return wrong("unknown option '%s'", argv[optind - 1]);
		}
	}
	if (!r && optind < argc)
		return wrong("unexpected argument '%s'", argv[optind]);
	return r ? r : fill_defaults(o);
}
