/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's configuration: each mistake is answered with its file, line, key and what was expected; both syntaxes mean the same. */
#include <CUnit/Basic.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "conf/conf.h"

#include <string.h>
#include <sys/stat.h>

static char dir[] = "/tmp/test-conf.XXXXXX";

static const struct edera_conf_key kvm_keys[] = {
	{ "accelerator", EDERA_CONF_STRING, 0, "auto", "doc" },
	{ "uri", EDERA_CONF_STRING, 0, "qemu:///embed?root=/run/x", "doc" },
	{ "machines", EDERA_CONF_LIST, 0, "{\"q35\", \"pc\"}", "doc" },
	{ "retries", EDERA_CONF_INT, 0, "3", "doc" },
	{ "trace", EDERA_CONF_BOOL, 0, NULL, "doc" },
	{ "token", EDERA_CONF_STRING, EDERA_CONF_SECRET, NULL, "doc" },
	{ 0 },
};
static const struct conf_plugin plugins[] = { { "kvm", kvm_keys }, { "bare", NULL } };

static const char *put(const char *name, const char *text)
{
	static char path[4096];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	path_write_file(path, text, strlen(text), 0644, NULL);
	return path;
}

static struct conf *load(const char *name, const char *text, struct edera_error *err)
{
	struct conf *c = NULL;

	conf_load(put(name, text), plugins, ARRAY_SIZE(plugins), &c, err);
	return c;
}

/* Loading `text` fails, and says exactly DIR/NAME + `rest`. */
static void fails(const char *name, const char *text, const char *rest)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_conf_ struct conf *c = load(name, text, &err);
	char want[600];

	snprintf(want, sizeof want, "%s/%s%s", dir, name, rest);
	CU_ASSERT_PTR_NULL(c);
	CU_ASSERT_STRING_EQUAL(err.msg, want);
	if (strcmp(err.msg, want))
		printf("\n  got:  %s\n  want: %s\n", err.msg, want);
	CU_ASSERT(err.code < 0);
}

static struct conf *loads(const char *name, const char *text)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct conf *c = load(name, text, &err);

	CU_ASSERT_PTR_NOT_NULL(c);
	if (!c)
		printf("\n  %s\n", err.msg);
	return c;
}

static void defaults(void)
{
	_conf_ struct conf *c = NULL;
	const char *const *items;

	CU_ASSERT_EQUAL(conf_load(NULL, NULL, 0, &c, NULL), 0);
	CU_ASSERT_STRING_EQUAL(conf_str(c, "oci.docker-hub-mirror"), "index.docker.io");
	CU_ASSERT_EQUAL(conf_int(c, "zone.memory-limit-mb"), 1024);
	CU_ASSERT(conf_bool(c, "zone.cache-default-kernel"));
	CU_ASSERT_STRING_EQUAL(conf_str(c, "plugins.hypervisor"), "auto");
	CU_ASSERT_EQUAL(conf_list(c, "plugins.kernel-variant-sources", &items), 2);
	CU_ASSERT_STRING_EQUAL(items[0], "config");
	CU_ASSERT_STRING_EQUAL(items[1], "registry");
	CU_ASSERT_EQUAL(conf_n_warnings(c), 0);
}

static int collect(void *user, const char *key, const char *value)
{
	buf_printf(user, "%s=%s;", key, value);
	return 0;
}

static void variants_of(const struct conf *c, const char *want)
{
	_buf_ struct buf b = BUF_INIT;

	CU_ASSERT_EQUAL(conf_each(c, "zone.kernel-variants", collect, &b), 0);
	CU_ASSERT_STRING_EQUAL(b.data ? (char *)b.data : "", want);
}

/* The file of the document that describes variants, its comment and all. */
static void documented_file(void)
{
	_conf_ struct conf *c = loads("daemon.toml",
		"# /var/lib/edera/protect/daemon.toml\n\n[zone.kernel-variants]\n"
		"nvidia = \"ghcr.io/edera-dev/zone-nvidiagpu-kernel:6.18.38-nvidia-610.43.02\"\n"
		"mykernel = \"docker.io/myorg/zone-mykernel:7.1.20\"\n");

	variants_of(c, "nvidia=ghcr.io/edera-dev/zone-nvidiagpu-kernel:6.18.38-nvidia-610.43.02;mykernel=docker.io/myorg/zone-mykernel:7.1.20;");
	CU_ASSERT_STRING_EQUAL(conf_free_name(c, "zone.kernel-variants", "mykernel"), "docker.io/myorg/zone-mykernel:7.1.20");
	CU_ASSERT_PTR_NULL(conf_free_name(c, "zone.kernel-variants", "other"));
	CU_ASSERT_EQUAL(conf_each(c, "zone", collect, NULL), -ENOENT);
}

static const char whole_toml[] =
	"[zone]\nmemory-limit-mb = 2048\ncache-default-kernel = false\n"
	"[plugin.kvm]\nmachines = [\"virt\", \"pc\"]\nretries = -7\nuri = \"qemu:///system\"\n"
	"[zone.kernel-variants]\nzeta = \"a/b:1\"\nalpha = \"localhost:5000/k@sha256:"
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\n\"6.18\" = \"oci:/srv/k:x\"\n"
	"[plugins]\nkernel-variant-sources = []\nhypervisor = \"xen\"\n"
	"[oci]\ninsecure-registries = [\"127.0.0.1:5000\", \"reg\", \"[::1]:5000\"]\n";
static const char whole_conf[] =
	"zone {\n memory-limit-mb = 2048\n cache-default-kernel = no\n"
	" kernel-variants {\n zeta = \"a/b:1\"\n alpha = \"localhost:5000/k@sha256:"
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\n \"6.18\" = 'oci:/srv/k:x'\n }\n}\n"
	"plugin { kvm { machines = {virt, \"pc\"} retries = -7 uri = \"qemu:///system\" } }\n"
	"plugins { kernel-variant-sources = {} hypervisor = xen }\n"
	"oci { insecure-registries = {\"127.0.0.1:5000\"} insecure-registries += {reg, \"[::1]:5000\"} }\n";

static void same_in_both_syntaxes(void)
{
	_buf_ struct buf restart = BUF_INIT, applied = BUF_INIT, changed = BUF_INIT;
	_conf_ struct conf *toml = loads("a.toml", whole_toml), *conf = loads("a.conf", whole_conf);
	struct edera_conf *section = conf_plugin_section(conf, &plugins[0]);
	const char *const *items;

	conf_diff(toml, conf, &restart, &applied, &changed);
	CU_ASSERT_EQUAL(restart.len + applied.len + changed.len, 0);
	variants_of(conf, "zeta=a/b:1;alpha=localhost:5000/k@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef;"
			  "6.18=oci:/srv/k:x;");
	CU_ASSERT_EQUAL(conf_int(conf, "zone.memory-limit-mb"), 2048);
	CU_ASSERT_EQUAL(conf_list(conf, "plugins.kernel-variant-sources", &items), 0);
	CU_ASSERT_EQUAL(edera_conf_list(section, "machines", &items), 2);
	CU_ASSERT_STRING_EQUAL(items[0], "virt");
	CU_ASSERT_EQUAL(edera_conf_int(section, "retries"), -7);
	edera_conf_free(section);
}

static void plugin_sections(void)
{
	_conf_ struct conf *c = loads("p.toml", "[plugin.kvm]\ntrace = true\ntoken = \"secret\"\n");
	struct edera_conf *set = conf_plugin_section(c, &plugins[0]), *unset = conf_plugin_section(NULL, &plugins[0]);
	_buf_ struct buf v = BUF_INIT, d = BUF_INIT;

	CU_ASSERT_STRING_EQUAL(edera_conf_str(set, "accelerator"), "auto");
	CU_ASSERT_STRING_EQUAL(edera_conf_str(set, "uri"), "qemu:///embed?root=/run/x");
	CU_ASSERT_EQUAL(edera_conf_bool(set, "trace"), 1);
	CU_ASSERT_EQUAL(edera_conf_bool(unset, "trace"), 0);
	CU_ASSERT_EQUAL(edera_conf_int(unset, "retries"), 3);
	CU_ASSERT_STRING_EQUAL(edera_conf_str(set, "no-such-key"), "");
	CU_ASSERT_EQUAL(edera_conf_int(set, "uri"), 0);
	edera_conf_print(set, "token", &v, &d);
	CU_ASSERT_STRING_EQUAL((char *)v.data, "(set)");
	CU_ASSERT_STRING_EQUAL((char *)d.data, "\"\"");
	edera_conf_free(set);
	edera_conf_free(unset);
}

static void bad_declarations(void)
{
	static const struct { struct edera_conf_key keys[3]; const char *why; } bad[] = {
		{ { { "Upper", EDERA_CONF_STRING, 0, NULL, "" } }, "has a bad name" },
		{ { { "x", 9, 0, NULL, "" } }, "unknown type" },
		{ { { "x", EDERA_CONF_INT, 0, "many", "" } }, "bad default 'many'" },
		{ { { "x", EDERA_CONF_LIST, 0, "{\"a\"", "" } }, "bad default" },
		{ { { "x", EDERA_CONF_BOOL, 0, NULL, "" }, { "x", EDERA_CONF_BOOL, 0, NULL, "" } }, "declared twice" },
	};

	CU_ASSERT_EQUAL(conf_check_keys(kvm_keys, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct edera_error err = EDERA_ERROR_INIT;

		CU_ASSERT_EQUAL(conf_check_keys(bad[i].keys, &err), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, bad[i].why));
	}
}

static void toml_errors(void)
{
	fails("e.toml", "[zone]\n\nmemory-limit-mb = \"lots\"\n",
	      ":3: zone.memory-limit-mb: expected a whole number from 32 to 16777216, found a string");
	fails("e.toml", "[zone]\nmemory-limit-mb = 7\n", ":2: zone.memory-limit-mb = \"7\": expected a whole number from 32 to 16777216");
	fails("e.toml", "zone.memory-limit-mb = 1.5\n",
	      ":1: zone.memory-limit-mb: expected a whole number from 32 to 16777216, found a floating-point number");
	fails("e.toml", "[zone]\nmemory-limit = 7\n", ":2: zone.memory-limit: there is no such key; did you mean zone.memory-limit-mb?");
	fails("e.toml", "[zoned]\nx = 7\n", ":1: zoned: there is no such key; did you mean zone?");
	fails("e.toml", "\nsomething = 7\n", ":2: something: there is no such section");
	fails("e.toml", "[zone]\nwhatever-this-is = 7\n", ":2: zone.whatever-this-is: there is no such key");
	fails("e.toml", "zone = 7\n", ":1: zone: expected a section, found a whole number");
	fails("e.toml", "[zone.kernel-variants]\nnv = \"Not A Ref\"\n",
	      ":2: zone.kernel-variants.nv = \"Not A Ref\": expected an OCI image reference: 'Not A Ref' is not an image reference: a "
	      "repository's name is lower-case letters, digits and single separators between slashes, as in ghcr.io/org/name:tag");
	fails("e.toml", "[zone.kernel-variants]\n\"a b\" = \"x\"\n",
	      ":2: zone.kernel-variants.a b: expected a variant's name: up to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit");
	fails("e.toml", "[zone.kernel-variants]\nok = \"x\"\nno = 7\n", ":3: zone.kernel-variants.no: expected a string, found a whole number");
	fails("e.toml", "[zone.kernel-variants.deep]\nx = \"y\"\n", ":1: zone.kernel-variants.deep: expected a string, found a table");
	fails("e.toml", "[zone]\nmax-cpus = 2\nmax-cpus = 3\n", ":3: Error while parsing key-value pair: cannot redefine existing integer 'max-cpus'");
	fails("e.toml", "[zone\n", ":1: Error while parsing table header: expected ']', saw '\\n'");
	fails("e.toml", "[plugin.kvm]\nretries = \"x\"\n", ":2: plugin.kvm.retries: expected a whole number, found a string");
	fails("e.toml", "[plugin.kvm]\nretrys = 1\n", ":2: plugin.kvm.retrys: there is no such key; did you mean plugin.kvm.retries?");
	fails("e.toml", "[oci]\ninsecure-registries = [\"a:1\",\n\"http://b\"]\n",
	      ":3: oci.insecure-registries = \"http://b\": expected a registry as HOST or HOST:PORT, without a scheme or path");
	fails("e.toml", "[oci]\ninsecure-registries = \"a\"\n", ":2: oci.insecure-registries: expected a list of strings, found a string");
	fails("e.toml", "[oci]\ninsecure-registries = [1]\n",
	      ":2: oci.insecure-registries: expected a list of strings, found a list of something else than plain strings");
	fails("e.toml", "[oci]\nca-file = \"rel/path\"\n", ":2: oci.ca-file = \"rel/path\": expected an absolute path");
	fails("e.toml", "[oci]\ncontainerd-root = \"var\"\n", ":2: oci.containerd-root = \"var\": expected an absolute path");
	fails("e.toml", "[oci]\ncontainerd-namespaces = [\"k8s.io\", \"a/b\"]\n",
	      ":2: oci.containerd-namespaces = \"a/b\": expected a namespace of containerd, as in k8s.io: up to 76 letters, digits, '.', '_' and '-'");
	fails("e.toml", "[zone.kernel-variants]\nnv = \"containerd:oci:/x\"\n", ":2: zone.kernel-variants.nv = \"containerd:oci:/x\": expected an OCI image reference: "
	      "'oci:/x' is not an image reference: 'oci:' is not a registry's host name");
	fails("e.toml", "[oci]\nca-file = \"/a\\u0000b\"\n", ":2: oci.ca-file: expected a string, found a string with a NUL character");
	fails("e.toml", "[daemon]\nlog-level = \"loud\"\n", ":2: daemon.log-level = \"loud\": expected one of error, warning, info, debug");
	fails("e.toml", "[daemon]\nlisten = [\"tcp://0.0.0.0:1\"]\n",
	      ":2: daemon.listen = \"tcp://0.0.0.0:1\": expected a socket as in unix:///run/edera/other.socket");
	fails("e.toml", "[plugins]\nhypervisor = \"../x\"\n",
	      ":2: plugins.hypervisor = \"../x\": expected a plugin's name: lower-case letters, digits and '-'");
	fails("e.toml", "[zone]\nmemory-limit-mb = 512\ntarget-memory-mb = 1024\n",
	      ":3: zone.target-memory-mb = 1024 is more than zone.memory-limit-mb = 512");
	fails("e.toml", "# \xff\n", ":1: expected text in UTF-8");
}

static void confuse_errors(void)
{
	fails("e.conf", "zone {\n\n memory-limit-mb = lots\n}\n", ":3: zone.memory-limit-mb = \"lots\": expected a whole number from 32 to 16777216");
	fails("e.conf", "zone { memory-limit-mb = 0x400 }\n", ":1: zone.memory-limit-mb = \"0x400\": expected a whole number from 32 to 16777216");
	fails("e.conf", "zone {\n memory-limit = 7\n}\n", ":2: zone.memory-limit: there is no such key; did you mean zone.memory-limit-mb?");
	fails("e.conf", "\nzoned {\n}\n", ":2: zoned: there is no such key; did you mean zone?");
	fails("e.conf", "zone {\n max-cpus = 2\n max-cpus = 3\n}\n", ":3: zone.max-cpus: set a second time, first in line 2");
	fails("e.conf", "zone {\n kernel-variants {\n a = x\n b = y\n a = z\n}\n}\n", ":5: zone.kernel-variants.a: set a second time, first in line 3");
	fails("e.conf", "zone {\n kernel-variants {\n ok = x\n \"a b\" = x\n}\n}\n",
	      ":4: zone.kernel-variants.a b: expected a variant's name: up to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit");
	fails("e.conf", "zone {\n kernel-variants {\n nv = \"x:y:z\"\n}\n}\n",
	      ":3: zone.kernel-variants.nv = \"x:y:z\": expected an OCI image reference: 'x:y:z' is not an image reference: a tag is 1 to 128 "
	      "letters, digits, '_', '.' and '-', not beginning with '.' or '-'");
	fails("e.conf", "plugins {\n disabled = {a, b}\n disabled = {c}\n}\n", ":3: plugins.disabled: set a second time, first in line 2");
	fails("e.conf", "zone {\n max-cpus = 2\n", ":2: the file ends inside the section zone: a '}' is missing");
	fails("e.conf", "plugin {\n kvm {\n trace = perhaps\n}\n}\n", ":3: plugin.kvm.trace = \"perhaps\": expected true or false");
	fails("e.conf", "plugin {\n kvm {\n retrys = 1\n}\n}\n", ":3: plugin.kvm.retrys: there is no such key; did you mean plugin.kvm.retries?");
}

static void secrets_stay_secret(void)
{
	static const struct edera_conf_key keys[] = { { "pin", EDERA_CONF_INT, EDERA_CONF_SECRET, NULL, "" }, { 0 } };
	static const struct conf_plugin p = { "vault", keys };
	struct edera_error err = EDERA_ERROR_INIT;
	_conf_ struct conf *c = NULL;

	CU_ASSERT(conf_load(put("s.conf", "plugin { vault {\n pin = hunter2\n} }\n"), &p, 1, &c, &err) < 0);
	CU_ASSERT_PTR_NULL(strstr(err.msg, "hunter2"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "s.conf:2: plugin.vault.pin: expected a whole number"));
}

static void warns(const char *name, const char *text, const char *rest)
{
	_conf_ struct conf *c = loads(name, text);
	char want[400];

	snprintf(want, sizeof want, "%s/%s%s", dir, name, rest);
	CU_ASSERT_EQUAL_FATAL(conf_n_warnings(c), 1);
	CU_ASSERT_STRING_EQUAL(conf_warning(c, 0), want);
}

static void warnings(void)
{
	warns("w.toml", "\n[network]\nnameservers = [\"1.1.1.1\"]\n[network.ipv4]\nsubnet = \"10.75.0.0/16\"\n",
	      ":2: the section network is not supported yet and has no effect");
	warns("w.toml", "[pci.devices.gpu0]\nlocations = [\"0000:18:00.0\"]\npermissive = true\n",
	      ":1: the section pci is not supported yet and has no effect");
	warns("w.toml", "[plugin.gone]\nx = 1\n", ":1: no plugin gone is loaded, so the section plugin.gone has no effect");
	warns("w.toml", "[oci]\nseed = \"/x\"\n", ":2: oci.seed is not supported yet and has no effect");
	warns("w.conf", "network { ipv4 { subnet = x } nameservers = {a, b} }\n", ":1: the section network is not supported yet and has no effect");
	warns("w.conf", "plugin { gone { x = 1 deep { y = {1, 2} } } kvm { retries = 1 } }\n",
	      ":1: no plugin gone is loaded, so the section plugin.gone has no effect");
}

static void first_pass(void)
{
	_conf_ struct conf *a = NULL, *b = NULL;

	CU_ASSERT_EQUAL(conf_load_plugins(put("f.toml", "bad = 1\n[plugins]\ndirectory = \"/d\"\nnew = 1\n[zone]\nmemory-limit-mb = \"x\"\n"), &a, NULL), 0);
	CU_ASSERT_STRING_EQUAL(conf_str(a, "plugins.directory"), "/d");
	CU_ASSERT_EQUAL(conf_load_plugins(put("f.conf", "bad = 1\nplugins { directory = \"/d\" new = {1, 2} }\nzone { memory-limit-mb = x }\n"), &b, NULL), 0);
	CU_ASSERT_STRING_EQUAL(conf_str(b, "plugins.directory"), "/d");
	CU_ASSERT_EQUAL(conf_load_plugins("/nonexistent/daemon.toml", &b, NULL), -ENOENT);
}

static void reload(void)
{
	_conf_ struct conf *old = loads("r.toml", "[zone.kernel-variants]\na = \"x\"\n");
	_conf_ struct conf *now = loads("r.toml",
		"[zone]\nmemory-limit-mb = 99\n[zone.kernel-variants]\na = \"y\"\n[daemon]\nlog-level = \"debug\"\nsocket-group = \"adm\"\n"
		"[plugins]\nhypervisor = \"kvm\"\n[plugin.kvm]\nretries = 5\ntrace = true\n[oci]\nca-file = \"/c\"\n");
	_buf_ struct buf restart = BUF_INIT, applied = BUF_INIT, changed = BUF_INIT;

	conf_diff(old, now, &restart, &applied, &changed);
	CU_ASSERT_STRING_EQUAL((char *)restart.data, "daemon.socket-group, plugins.hypervisor");
	CU_ASSERT_STRING_EQUAL((char *)applied.data, "daemon.log-level, zone.memory-limit-mb, oci.ca-file, zone.kernel-variants");
	CU_ASSERT_STRING_EQUAL((char *)changed.data, "plugin.kvm");
}

static void default_file(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_buf_ struct buf text = BUF_INIT, applied = BUF_INIT, restart = BUF_INIT;
	_conf_ struct conf *c = NULL, *builtin = NULL;
	char path[200];

	snprintf(path, sizeof path, "%s/default.toml", dir);
	CU_ASSERT_EQUAL(conf_write_default(path, NULL), 0);
	CU_ASSERT_EQUAL(conf_write_default(path, &err), -EEXIST);
	CU_ASSERT_EQUAL(conf_load(path, NULL, 0, &c, NULL), 0);
	CU_ASSERT_EQUAL(conf_load(NULL, NULL, 0, &builtin, NULL), 0);
	variants_of(c, "nvidia=ghcr.io/edera-dev/zone-nvidiagpu-kernel:6.18-nvidia-610.43.02;");
	conf_diff(builtin, c, &restart, &applied, NULL);
	CU_ASSERT_EQUAL(restart.len, 0);
	CU_ASSERT_STRING_EQUAL((char *)applied.data, "zone.kernel-variants");

	/* With every comment of a key taken away it still is a valid file that says the defaults. */
	path_read_file(path, 1 << 20, &text, NULL);
	for (char *p = (char *)text.data; p; p = strchr(p + 1, '\n')) {
		char *key = *p == '\n' ? p + 1 : p, *equals = key + strcspn(key, "=\n");

		if (!strncmp(key, "# ", 2) && *equals == '=' && strcspn(key + 2, " ") == (size_t)(equals - key - 3))
			memset(key, ' ', 2);
	}
	conf_unref(c);
	c = loads("shown.toml", (char *)text.data);
	buf_clear(&applied);
	conf_diff(builtin, c, &restart, &applied, NULL);
	CU_ASSERT_EQUAL(restart.len, 0);
	CU_ASSERT_STRING_EQUAL((char *)applied.data, "zone.kernel-variants");
}

/* The samples that are shipped, and the man page, say what the schema says. */
static void samples(void)
{
	_buf_ struct buf printed = BUF_INIT, sample = BUF_INIT, restart = BUF_INIT, applied = BUF_INIT;
	_conf_ struct conf *toml = NULL, *conf = NULL;
	static const char own[] = "\"" PROTECT_PLUGIN_DIR "\"", usual[] = "\"/usr/lib/edera/plugins\"";
	char *at;

	CU_ASSERT_EQUAL_FATAL(conf_print_default(&printed), 0);
	CU_ASSERT_EQUAL_FATAL(path_read_file(SRC_DIR "/conf/daemon.toml.sample", 1 << 20, &sample, NULL), 0);
	at = strstr((char *)printed.data, own);
	CU_ASSERT_PTR_NOT_NULL_FATAL(at);
	CU_ASSERT_EQUAL(strncmp((char *)printed.data, (char *)sample.data, (size_t)(at - (char *)printed.data)), 0);
	CU_ASSERT_STRING_EQUAL(at + strlen(own), (char *)sample.data + (at - (char *)printed.data) + strlen(usual));
	CU_ASSERT_EQUAL(conf_load(SRC_DIR "/conf/daemon.conf.sample", NULL, 0, &conf, NULL), -EINVAL); /* by its name it is TOML */
	buf_free(&sample);
	CU_ASSERT_EQUAL_FATAL(path_read_file(SRC_DIR "/conf/daemon.conf.sample", 1 << 20, &sample, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(conf_load_text((char *)sample.data, false, NULL, 0, &conf, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(conf_load_text((char *)printed.data, true, NULL, 0, &toml, NULL), 0);
	conf_diff(toml, conf, &restart, &applied, NULL);
	CU_ASSERT_EQUAL(restart.len + applied.len, 0);
}

/* A key as troff has it, with its default: "memory\-limit\-mb" and "1024". */
static void in_man_page(const char *page, const char *line)
{
	char name[80] = "", def[200] = "", *at, *end;
	size_t n = 0;

	line += *line == '#' ? 2 : 0;
	for (; *line != ' ' && n < sizeof name - 2; line++) {
		if (*line == '-')
			name[n++] = '\\';
		name[n++] = *line;
	}
	snprintf(def, sizeof def, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
	/* Where it is defined: in a line that begins with .BR. */
	for (at = strstr(page, name); at; at = strstr(at + 1, name)) {
		const char *begin = at;

		while (begin > page && begin[-1] != '\n')
			begin--;
		if (!strncmp(begin, ".BR ", 4))
			break;
	}
	CU_ASSERT_PTR_NOT_NULL(at);
	if (!at) {
		printf("\n  the man page lacks %s\n", name);
		return;
	}
	end = strchr(at, '\n');
	if (strspn(def, "0123456789") == strlen(def) && (!strstr(at, def) || strstr(at, def) > end)) {
		CU_FAIL("default");
		printf("\n  the man page has another default of %s than %s\n", name, def);
	}
}

static void man_page(void)
{
	_buf_ struct buf printed = BUF_INIT, page = BUF_INIT;

	CU_ASSERT_EQUAL_FATAL(conf_print_default(&printed), 0);
	CU_ASSERT_EQUAL_FATAL(path_read_file(SRC_DIR "/man/daemon.toml.5", 1 << 20, &page, NULL), 0);
	for (char *line = (char *)printed.data; line; line = strchr(line, '\n')) {
		size_t key;

		line += *line == '\n';
		key = strspn(line, "abcdefghijklmnopqrstuvwxyz-# ");
		if (*line && strncmp(line, "nvidia", 6) && line[key] == '=' && strcspn(line + (*line == '#' ? 2 : 0), " ") + (*line == '#' ? 3 : 1) == key)
			in_man_page((char *)page.data, line);
		line += strcspn(line, "\n");
		if (!*line)
			break;
	}
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "defaults", defaults }, { "the documented file", documented_file }, { "same in both syntaxes", same_in_both_syntaxes },
		{ "plugin sections", plugin_sections }, { "bad declarations", bad_declarations }, { "TOML errors", toml_errors },
		{ "libconfuse errors", confuse_errors }, { "secrets stay secret", secrets_stay_secret }, { "warnings", warnings },
		{ "first pass", first_pass }, { "reload", reload }, { "default file", default_file }, { "samples", samples },
		{ "man page", man_page }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "configuration", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	if (!mkdtemp(dir) || CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	path_remove_tree(dir, NULL);
	return failed ? 1 : 0;
}
