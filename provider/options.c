/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"
#include "base/text.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: protect-oci-provider [OPTIONS] --output FILE [pull] REF  fetch an image and pack it into FILE\n"
	"       protect-oci-provider [OPTIONS] tags REPOSITORY           list the tags of a repository\n"
	"       protect-oci-provider [OPTIONS] inspect REF               show digests, annotations and labels of an image\n"
	"REF: [HOST[:PORT]/]PATH[:TAG][@DIGEST], oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:REF]\n"
	"     or archive:FILE[:REF][@DIGEST], which is either; FILE may be - for standard input\n"
	"\n"
	"  --output FILE                where the image goes; it appears when it is complete; - is standard output\n"
	"  --format FORMAT              squashfs (default), erofs, tar, or directory (a kernel image's files)\n"
	"  --platform OS/ARCH[/VARIANT] which image of an index (default: this machine's)\n"
	"  --auth-file FILE             credentials, in the form of docker's config.json\n"
	"  --insecure-registry HOST[:PORT]  may be spoken to over http (repeatable)\n"
	"  --ca FILE                    more certificate authorities, PEM\n"
	"  --cert FILE, --key FILE      client certificate and key, PEM; --cert may hold both\n"
	"  --docker-hub-mirror HOST     asked before Docker Hub\n"
	"  --proxy URL                  instead of what http_proxy, https_proxy and no_proxy say\n"
	"  --compression-level N        of zstd, 1 (default) to 22; of squashfs\n"
	"  --mkfs-erofs FILE            the program that makes erofs images, if it is not where programs usually are\n"
	"  --parallel N                 layers fetched at a time (default 4)\n"
	"  --max-entries N              files, directories and links in all layers (default 2000000)\n"
	"  --max-size BYTES             of all layers unpacked (default 64 GiB); K, M, G, T may follow\n"
	"  --max-file BYTES             of each file of a kernel image (default 1 GiB)\n"
	"  --timeout SECONDS            for the whole (default: 0, no limit)\n"
	"  --blobs DIR                  blobs that need not be fetched, as DIR/ALGORITHM/HEX (repeatable)\n"
	"  --have DIGEST                an image that is there already: if it is this one, nothing is fetched or written (repeatable)\n"
	"  --progress json|auto|none    JSON lines on standard output, bars on a terminal, or nothing\n"
	"  --auth-fd N, --output-fd N, --spool-fd N, --archive-fd N, --content-fd N, --ca-fd N, --cert-fd N, --key-fd N  descriptors in place of files and directories\n"
	"  --help, --version\n";

enum {
	OPT_OUTPUT = 256, OPT_OUTPUT_FD, OPT_SPOOL_FD, OPT_AUTH_FILE, OPT_AUTH_FD, OPT_FORMAT, OPT_PLATFORM, OPT_INSECURE, OPT_CA, OPT_CERT, OPT_KEY,
	OPT_MIRROR, OPT_PROXY, OPT_LEVEL, OPT_PARALLEL, OPT_ENTRIES, OPT_SIZE, OPT_FILE, OPT_TIMEOUT, OPT_PROGRESS, OPT_HELP, OPT_VERSION, OPT_WORKER, OPT_HAVE,
	OPT_BLOBS, OPT_CONTENT_FD, OPT_ARCHIVE_FD, OPT_MKFS_EROFS, OPT_CA_FD, OPT_CERT_FD, OPT_KEY_FD,
};

static const struct option table[] = {
	{ "output", required_argument, NULL, OPT_OUTPUT }, { "output-fd", required_argument, NULL, OPT_OUTPUT_FD },
	{ "spool-fd", required_argument, NULL, OPT_SPOOL_FD }, { "auth-file", required_argument, NULL, OPT_AUTH_FILE },
	{ "auth-fd", required_argument, NULL, OPT_AUTH_FD }, { "format", required_argument, NULL, OPT_FORMAT },
	{ "platform", required_argument, NULL, OPT_PLATFORM }, { "insecure-registry", required_argument, NULL, OPT_INSECURE },
	{ "ca", required_argument, NULL, OPT_CA }, { "cert", required_argument, NULL, OPT_CERT }, { "key", required_argument, NULL, OPT_KEY },
	{ "docker-hub-mirror", required_argument, NULL, OPT_MIRROR }, { "proxy", required_argument, NULL, OPT_PROXY },
	{ "compression-level", required_argument, NULL, OPT_LEVEL }, { "parallel", required_argument, NULL, OPT_PARALLEL },
	{ "max-entries", required_argument, NULL, OPT_ENTRIES }, { "max-size", required_argument, NULL, OPT_SIZE },
	{ "max-file", required_argument, NULL, OPT_FILE }, { "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "progress", required_argument, NULL, OPT_PROGRESS }, { "help", no_argument, NULL, OPT_HELP }, { "version", no_argument, NULL, OPT_VERSION },
	{ "blobs", required_argument, NULL, OPT_BLOBS }, { "content-fd", required_argument, NULL, OPT_CONTENT_FD },
	{ "archive-fd", required_argument, NULL, OPT_ARCHIVE_FD }, { "ca-fd", required_argument, NULL, OPT_CA_FD },
	{ "cert-fd", required_argument, NULL, OPT_CERT_FD }, { "key-fd", required_argument, NULL, OPT_KEY_FD },
	{ "have", required_argument, NULL, OPT_HAVE }, { "worker", no_argument, NULL, OPT_WORKER }, { "mkfs-erofs", required_argument, NULL, OPT_MKFS_EROFS },
	{ NULL, 0, NULL, 0 },
};

static int choice(const char *option, const char *value, const char *const *names, int *ret, struct edera_error *err)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(value, names[i])) {
			*ret = i;
			return 0;
		}
	return err_set(err, -EINVAL, "'%.100s' is nothing that --%s can be", value, option);
}

static int number(const char *option, const char *value, uint64_t min, uint64_t max, uint64_t *ret, struct edera_error *err)
{
	static const char units[] = "KMGT";
	char digits[32];
	size_t n = strlen(value);
	const char *unit = n > 1 && max > UINT32_MAX ? strchr(units, value[n - 1]) : NULL;
	uint64_t scale = unit && *unit ? 1ull << (10 * (unit - units + 1)) : 1;

	if (snprintf(digits, sizeof digits, "%.*s", (int)(n - (scale > 1)), value) >= (int)sizeof digits || text_parse_u64(digits, 0, max / scale, ret) ||
	    *ret * scale < min)
		return err_set(err, -EINVAL, "'%.50s' is no number that --%s can be (%llu to %llu)", value, option, (unsigned long long)min, (unsigned long long)max);
	*ret *= scale;
	return 0;
}

static int descriptor(const char *option, const char *value, int *ret, struct edera_error *err)
{
	uint64_t v;
	int r = number(option, value, 0, INT32_MAX, &v, err);

	if (r)
		return r;
	if (fcntl((int)v, F_SETFD, FD_CLOEXEC) < 0)
		return err_errno(err, -errno, "--%s %s names no open descriptor", option, value);
	*ret = (int)v;
	return 0;
}

static int add(const char **list, const char *option, const char *value, struct edera_error *err)
{
	for (int i = 0; i < OPTIONS_LIST_MAX; i++)
		if (!list[i]) {
			list[i] = value;
			return 0;
		}
	return err_set(err, -EINVAL, "--%s is given more than %d times", option, OPTIONS_LIST_MAX);
}

static int take(struct options *o, int opt, const char *v, struct edera_error *err)
{
	static const char *const formats[] = { "squashfs", "tar", "directory", "erofs", NULL };
	static const char *const kinds[] = { "auto", "json", "none", NULL };
	uint64_t n = 0;
	int r = 0, pick = 0;

	switch (opt) {
	case OPT_OUTPUT: o->output = v; break;
	case OPT_OUTPUT_FD: r = descriptor("output-fd", v, &o->output_fd, err); break;
	case OPT_SPOOL_FD: r = descriptor("spool-fd", v, &o->spool_fd, err); break;
	case OPT_ARCHIVE_FD: r = descriptor("archive-fd", v, &o->archive_fd, err); break;
	case OPT_AUTH_FILE: o->auth_file = v; break;
	case OPT_AUTH_FD: r = descriptor("auth-fd", v, &o->auth_fd, err); break;
	case OPT_FORMAT: r = choice("format", v, formats, &pick, err); o->format = (enum output_format)pick; break;
	case OPT_PLATFORM: r = platform_parse(v, &o->platform, err); o->platform_given = true; break;
	case OPT_INSECURE: r = add(o->insecure, "insecure-registry", v, err); break;
	case OPT_HAVE: r = text_valid_digest(v) ? add(o->have, "have", v, err) : err_set(err, -EINVAL, "'%.100s' is no digest that --have can be", v); break;
	case OPT_BLOBS: r = add(o->blobs, "blobs", v, err); break;
	case OPT_CONTENT_FD: r = descriptor("content-fd", v, &o->content_fd, err); break;
	case OPT_MKFS_EROFS: o->mkfs_erofs = v; break;
	case OPT_CA: o->ca = v; break;
	case OPT_CERT: o->cert = v; break;
	case OPT_KEY: o->key = v; break;
	case OPT_CA_FD: r = descriptor("ca-fd", v, &o->ca_fd, err); break;
	case OPT_CERT_FD: r = descriptor("cert-fd", v, &o->cert_fd, err); break;
	case OPT_KEY_FD: r = descriptor("key-fd", v, &o->key_fd, err); break;
	case OPT_MIRROR: o->mirror = v; break;
	case OPT_PROXY: o->proxy = v; break;
	case OPT_LEVEL: r = number("compression-level", v, 1, 22, &n, err); o->level = (unsigned)n; break;
	case OPT_PARALLEL: r = number("parallel", v, 1, 16, &n, err); o->downloads = (unsigned)n; break;
	case OPT_ENTRIES: r = number("max-entries", v, 1, 100000000, &n, err); o->max_entries = (uint32_t)n; break;
	case OPT_SIZE: r = number("max-size", v, 1, 1ull << 50, &o->max_size, err); break;
	case OPT_FILE: r = number("max-file", v, 1, 1ull << 40, &o->max_file, err); break;
	case OPT_TIMEOUT: r = number("timeout", v, 0, 1000000, &n, err); o->timeout = (unsigned)n; break;
	case OPT_PROGRESS: r = choice("progress", v, kinds, &pick, err); o->progress = (enum progress_kind)pick; break;
	case OPT_WORKER: o->worker = true; break;
	}
	return r;
}

static int operands(struct options *o, char **args, int n, struct edera_error *err)
{
	static const char *const verbs[] = { "pull", "tags", "inspect", NULL };
	int verb = VERB_PULL;

	for (int i = 0; n == 1 && verbs[i]; i++)
		if (!strcmp(args[0], verbs[i]))
			return err_set(err, -EINVAL, "%s needs %s; see --help", verbs[i], i == VERB_TAGS ? "REPOSITORY" : "REF");
	for (int i = 0; n > 1 && verbs[i]; i++)
		if (!strcmp(args[0], verbs[i])) {
			verb = i;
			args++;
			n--;
			break;
		}
	if (n != 1)
		return err_set(err, -EINVAL, n == 0 ? "no image is named; see --help" : "'%s' is one operand too many; see --help", n == 0 ? "" : args[1]);
	if ((o->key || o->key_fd >= 0) && !o->cert && o->cert_fd < 0)
		return err_set(err, -EINVAL, "--key is given without the certificate it belongs to; give --cert FILE");
	o->verb = (enum verb)verb;
	o->reference = args[0];
	if (o->verb == VERB_PULL && !o->output && o->output_fd < 0)
		return err_set(err, -EINVAL, "it is not said where the image shall go; give --output FILE");
	if (o->verb == VERB_PULL && o->output && !strcmp(o->output, "-") && (o->progress == PROGRESS_JSON || o->format == FORMAT_DIRECTORY))
		return err_set(err, -EINVAL, o->progress == PROGRESS_JSON ? "standard output cannot have both the image (--output -) and --progress json"
									 : "a directory cannot go to standard output (--output -)");
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret, struct edera_error *err)
{
	struct options o = { .auth_fd = -1, .ca_fd = -1, .cert_fd = -1, .key_fd = -1, .output_fd = -1, .spool_fd = -1, .content_fd = -1,
			     .store_fd = -1, .archive_fd = -1, .unpack_fd = -1, .level = 1,
			     .max_entries = 2000000, .max_size = 64ull << 30,
			     .max_file = 1ull << 30, .downloads = 4 };
	int opt, r;

	platform_host(&o.platform);
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "", table, NULL)) != -1) {
		if (opt == '?')
			return err_set(err, -EINVAL, "'%.100s' is no option, or lacks its value; see --help", argv[optind - 1]);
		if (opt == OPT_HELP || opt == OPT_VERSION) {
			fputs(opt == OPT_HELP ? usage : "protect-oci-provider " PACKAGE_VERSION "\n", stdout);
			return 1;
		}
		r = take(&o, opt, optarg, err);
		if (r)
			return r;
	}
	r = operands(&o, argv + optind, argc - optind, err);
	if (!r)
		*ret = o;
	return r;
}
