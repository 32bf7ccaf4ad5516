/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/schema.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/reference.h"
#include "base/text.h"

#include <string.h>

static int check_log_level(const char *v, struct edera_error *err)
{
	return log_parse_level(v) < 0 ? err_set(err, -EINVAL, "expected one of error, warning, info, debug") : 0;
}

static int check_socket(const char *v, struct edera_error *err)
{
	return text_starts(v, "unix:///") && v[8] ? 0 : err_set(err, -EINVAL, "expected a socket as in unix:///run/edera/other.socket");
}

static int check_path(const char *v, struct edera_error *err)
{
	return !*v || *v == '/' ? 0 : err_set(err, -EINVAL, "expected an absolute path");
}

static int check_registry(const char *v, struct edera_error *err)
{
	char text[400];
	struct reference r;

	/* "localhost" and names without a dot are registries here, so the grammar is asked with a port where there is none. */
	snprintf(text, sizeof text, "%.300s%s/x", v, strchr(v, ':') ? "" : ":1");
	if (!*v || strchr(v, '/') || strlen(v) > 255 || reference_parse(text, &r, NULL))
		return err_set(err, -EINVAL, "expected a registry as HOST or HOST:PORT, without a scheme or path");
	return 0;
}

/* As containerd's identifiers: text_valid_name is a little wider at the end, which containerd itself refuses. */
static int check_namespace(const char *v, struct edera_error *err)
{
	return text_valid_name(v) && strlen(v) <= 76 ? 0 : err_set(err, -EINVAL, "expected a namespace of containerd, as in k8s.io: up to 76 letters, digits, '.', '_' and '-'");
}

/* The name of a plugin or of what one provides. */
static int check_name(const char *v, struct edera_error *err)
{
	if (!*v || strspn(v, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(v))
		return err_set(err, -EINVAL, "expected a plugin's name: lower-case letters, digits and '-'");
	return 0;
}

int schema_check_variant_name(const char *v, struct edera_error *err)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n = strlen(v);

	if (n < 1 || n > 63 || strspn(v, set) != n || strchr("._-", v[0]))
		return err_set(err, -EINVAL, "expected a variant's name: up to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit");
	return 0;
}

static int check_variant_or_none(const char *v, struct edera_error *err) { return *v ? schema_check_variant_name(v, err) : 0; }

int schema_check_variant_image(const char *v, struct edera_error *err)
{
	struct reference r;
	int e;

	if (text_starts(v, "oci:/"))
		return 0;
	reference_from_containerd(&v);
	e = reference_parse(v, &r, err);
	return e ? err_wrap(err, "expected an OCI image reference") : 0;
}

#define CONF_INT_MAX INT64_C(0x7fffffffffffffff)
#define DATA_FILE_HINT "(default: auth.json in the data directory)"

const struct section schema_sections[] = {
	{ "daemon", 0, false, "The daemon itself. A change here needs a restart, unless a key says otherwise." },
	{ "zone", 0, true, "What a zone gets when neither its launch nor its pod says otherwise. Applied on reload." },
	{ "zone.kernel-variants", SECTION_FREE, true,
	  "Kernel variants: a name, and the OCI image that holds the kernel. Pin a version tag or a digest, so that a name always means the\n"
	  "same kernel. Names are what `--kernel-variant` and the annotation dev.edera/kernel-variant take.\n"
	  "Applied on reload." },
	{ "oci", 0, true, "Registries and images. Applied on reload." },
	{ "plugins", 0, false, "Which plugins do the work. A change here needs a restart." },
	{ "plugin", 0, true, NULL },
	{ "network", SECTION_UNSUPPORTED, true, NULL },
	{ "pci", SECTION_UNSUPPORTED, true, NULL },
	{ 0 },
};

const struct def schema_defs[] = {
	{ "daemon", "socket-group", EDERA_CONF_STRING, 0, "root", 0, 0, NULL,
	  "Group whose members may use the control sockets. Whoever may use them is as good as root." },
	{ "daemon", "log-level", EDERA_CONF_STRING, DEF_RELOAD, "info", 0, 0, check_log_level, "error, warning, info or debug. Applied on reload." },
	{ "daemon", "listen", EDERA_CONF_LIST, 0, NULL, 0, 0, check_socket, "More sockets than the standard two, as \"unix:///PATH\"." },

	{ "zone", "default-kernel-variant", EDERA_CONF_STRING, 0, "", 0, 0, check_variant_or_none,
	  "Variant of zones that ask for none. Empty: the zone kernel installed in the data directory." },
	{ "zone", "memory-limit-mb", EDERA_CONF_INT, DEF_SHOWN, "1024", 32, 16 << 20, NULL, "Most memory a zone may use, in MiB." },
	{ "zone", "target-memory-mb", EDERA_CONF_INT, 0, "0", 0, 16 << 20, NULL, "Memory a zone starts with, in MiB. 0: the limit." },
	{ "zone", "max-cpus", EDERA_CONF_INT, 0, "4", 1, 1024, NULL, "Most virtual CPUs a zone may have." },
	{ "zone", "target-cpus", EDERA_CONF_INT, 0, "1", 1, 1024, NULL, "Virtual CPUs a zone starts with." },
	{ "zone", "cache-default-kernel", EDERA_CONF_BOOL, DEF_SHOWN, "true", 0, 0, NULL, "Keep the default variant's kernel on disk. false: fetch it for each launch." },
	{ "zone", "cache-default-initrd", EDERA_CONF_BOOL, DEF_SHOWN, "true", 0, 0, NULL, "The same for the zone initrd." },
	{ "zone", "launch-timeout-seconds", EDERA_CONF_INT, 0, "120", 1, 86400, NULL, "A zone that is not ready after this long has failed." },
	{ "zone", "kernel-options", EDERA_CONF_STRING, 0, "quiet cryptomgr.notests", 0, 0, NULL, "Appended to the kernel command line of every zone." },

	{ "oci", "docker-hub-mirror", EDERA_CONF_STRING, DEF_SHOWN, "index.docker.io", 0, 0, check_registry,
	  "Registry asked first when an image is on Docker Hub." },
	{ "oci", "insecure-registries", EDERA_CONF_LIST, 0, NULL, 0, 0, check_registry, "Registries spoken to by plain http, as \"HOST:PORT\"." },
	{ "oci", "ca-file", EDERA_CONF_STRING, 0, "", 0, 0, check_path, "PEM file of certificate authorities to trust besides the system's." },
	{ "oci", "certs-dir", EDERA_CONF_STRING, 0, "/etc/docker/certs.d", 0, 0, check_path,
	  "Where HOST[:PORT]/ may hold certificates for a registry: *.crt (authorities), NAME.cert and NAME.key (the client's).\n"
	  "All are PEM. Empty: it is not looked for." },
	{ "oci", "auth-file", EDERA_CONF_STRING, 0, "", 0, 0, check_path, "Credentials, in the form of Docker's config.json " DATA_FILE_HINT "." },
	{ "oci", "max-image-mb", EDERA_CONF_INT, 0, "65536", 1, 16 << 20, NULL, "Largest image accepted, unpacked, in MiB." },
	{ "oci", "max-image-entries", EDERA_CONF_INT, 0, "2000000", 1, 100000000, NULL, "Most files an image may hold." },
	{ "oci", "pull-timeout-seconds", EDERA_CONF_INT, 0, "1800", 1, 86400, NULL, "A pull that takes longer has failed." },
	{ "oci", "import-idle-seconds", EDERA_CONF_INT, 0, "60", 1, 86400, NULL, "A client that imports an image and sends nothing for so long has failed." },
	{ "oci", "containerd-root", EDERA_CONF_STRING, 0, "/var/lib/containerd", 0, 0, check_path,
	  "Root of this node's containerd: what its content store has is not downloaded. Empty: it is left alone." },
	{ "oci", "containerd-address", EDERA_CONF_STRING, 0, "/run/containerd/containerd.sock", 0, 0, check_path,
	  "Socket of containerd, which is asked what an image named \"containerd:NAME\" is. Empty: it is not asked." },
	{ "oci", "containerd-namespaces", EDERA_CONF_LIST, 0, "{\"k8s.io\", \"default\"}", 0, 0, check_namespace,
	  "Namespaces of containerd in which it looks, in this order." },
	{ "oci", "seed", EDERA_CONF_STRING, DEF_UNSUPPORTED, "", 0, 0, NULL, "" },

	{ "plugins", "directory", EDERA_CONF_STRING, 0, PROTECT_PLUGIN_DIR, 0, 0, check_path,
	  "Where plugins are. It, its files and every parent must be root's and writable by nobody else." },
	{ "plugins", "hypervisor", EDERA_CONF_STRING, 0, "auto", 0, 0, check_name,
	  "auto, or a name from `protect plugin list`. A named one that cannot be used keeps the daemon from starting." },
	{ "plugins", "image-store", EDERA_CONF_STRING, 0, "squashfs", 0, 0, check_name, "Keeps the images." },
	{ "plugins", "kernel-variant-sources", EDERA_CONF_LIST, 0, "{\"config\", \"registry\"}", 0, 0, check_name,
	  "Where kernel variants come from. Of two with one name, the earlier source's wins." },
	{ "plugins", "disabled", EDERA_CONF_LIST, 0, NULL, 0, 0, check_name, "Plugins that are not to be loaded." },
	{ 0 },
};

const struct section *schema_section(const char *name)
{
	for (const struct section *s = schema_sections; s->name; s++)
		if (!strcmp(s->name, name))
			return s;
	return NULL;
}

/* Edits (insert, delete, replace) that turn one word into the other; both short. */
static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(b), row[64];

	if (n >= ARRAY_SIZE(row) || strlen(a) >= ARRAY_SIZE(row))
		return ARRAY_SIZE(row);
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; *a; a++, i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t replaced = diagonal + (*a != b[j - 1]), shorter = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);

			diagonal = row[j];
			row[j] = replaced < shorter ? replaced : shorter;
		}
	}
	return row[n];
}

const char *schema_nearest(const char *word, const char *const *names, size_t n)
{
	size_t best = strlen(word) / 3 + 2;
	const char *found = NULL;

	for (size_t i = 0; i < n; i++) {
		size_t d = distance(word, names[i]);

		if (d < best) {
			best = d;
			found = names[i];
		}
	}
	return found;
}
