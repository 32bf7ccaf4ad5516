/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin host against plugins made wrong on purpose: each is refused for its own reason and leaves nothing behind. */
#include <CUnit/Basic.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/path.h"
#include "plugin/plugin_host.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define MINOR TEXT(EDERA_ABI_MINOR)

static char dir[] = "/tmp/test-loader.XXXXXX";
static char plugins[64]; /* a directory for each test: what was loaded by a path once stays loaded under it */
static uv_loop_t loop;
static char events[200];

/* Compiles loader_plugin.c as FILE; `defines` as for the shell. */
static void build(const char *file, const char *defines)
{
	char cmd[2000];

	snprintf(cmd, sizeof cmd, "%s -shared -fPIC -w -O0 -fvisibility=hidden -I'%s' %s '%s/loader_plugin.c' -o '%s/%s'", TEST_CC, TEST_INCLUDE,
		 defines, TEST_SOURCES, plugins, file);
	if (system(cmd)) {
		printf("cannot run: %s\n", cmd);
		exit(99);
	}
}

#define STORE "-DKIND=2 -DNAME='\"squashfs\"'"
#define SOURCE(name) "-DNAME='\"" name "\"'"
#define HYPERVISOR(name) "-DKIND=1 -DNAME='\"" name "\"'"
#define NEED(kind, name) "'-DNEEDS={ " #kind ", 0, \"" name "\" }'"
#define WANT(kind, name) "'-DNEEDS={ " #kind ", 1, \"" name "\" }'"

static void put(const char *name, const char *text)
{
	char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	path_write_file(path, text, strlen(text), 0644, NULL);
}

static void put_plugin(const char *name, const char *text)
{
	char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/%s", plugins, name);
	path_write_file(path, text, strlen(text), 0644, NULL);
}

static char *trace(void)
{
	static char text[4096];
	char path[PATH_CAP];
	_buf_ struct buf b = BUF_INIT;

	snprintf(path, sizeof path, "%s/trace", dir);
	text[0] = 0;
	if (!path_read_file(path, sizeof text - 1, &b, NULL))
		strcpy(text, (char *)b.data);
	unlink(path);
	return text;
}

static void fresh(void)
{
	static int n;

	snprintf(plugins, sizeof plugins, "%s/%d", dir, n++);
	mkdir(plugins, 0755);
	trace();
}

static void on_event(void *user, const char *plugin, const char *vm_id, enum edera_vm_event event, const char *detail)
{
	size_t n = strlen(events);

	(void)user;
	snprintf(events + n, sizeof events - n, "%s:%s:%d:%s;", plugin, vm_id, (int)event, detail ? detail : "-");
}

static struct conf *conf_of(struct plugin_host *h, const char *extra)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char text[2000], path[PATH_CAP];
	const struct conf_plugin *known = NULL;
	struct conf *c = NULL;
	size_t n = 0;

	snprintf(text, sizeof text, "[plugins]\ndirectory = \"%s\"\n%s", plugins, extra);
	put("daemon.toml", text);
	snprintf(path, sizeof path, "%s/daemon.toml", dir);
	if (h)
		known = plugin_host_conf_plugins(h, &n);
	if (h ? conf_load(path, known, n, &c, &err) : conf_load_plugins(path, &c, &err))
		printf("\n%s\n", err.msg);
	CU_ASSERT_PTR_NOT_NULL_FATAL(c);
	return c;
}

/* A host over what was built; err as plugin_host_start gives it. */
static struct plugin_host *start(const char *extra, int want, struct edera_error *err)
{
	const struct plugin_host_options o = { .data_dir = "/d", .run_dir = "/r", .cache_dir = "/c", .vm_event = on_event };
	_conf_ struct conf *first = conf_of(NULL, extra), *whole = NULL;
	struct plugin_host *h = NULL;

	CU_ASSERT_EQUAL_FATAL(plugin_host_new(&loop, &o, &h, err), 0);
	CU_ASSERT_EQUAL_FATAL(plugin_host_load(h, first, err), 0);
	whole = conf_of(h, extra);
	CU_ASSERT_EQUAL(plugin_host_start(h, whole, err), want);
	return h;
}

static void finish(struct plugin_host *h)
{
	plugin_host_stop(h);
	uv_run(&loop, UV_RUN_DEFAULT);
	plugin_host_free(h);
}

static struct plugin_info info_of(struct plugin_host *h, const char *name)
{
	struct plugin_info info;

	for (size_t i = 0; i < plugin_host_count(h); i++) {
		plugin_host_info(h, i, &info);
		if (!strcmp(info.name, name))
			return info;
	}
	CU_FAIL_FATAL("not in the list");
	abort();
}

static void is(struct plugin_host *h, const char *name, enum plugin_state state, const char *reason)
{
	struct plugin_info info = info_of(h, name);

	CU_ASSERT_EQUAL(info.state, state);
	CU_ASSERT(*reason ? strstr(info.reason, reason) != NULL : !info.reason[0]);
	if (info.state != state || (*reason ? !strstr(info.reason, reason) : info.reason[0]))
		printf("\n  %s is %s: %s\n  want %s: %s\n", name, plugin_state_name(info.state), info.reason, plugin_state_name(state), reason);
}

#define NO_SOURCES "kernel-variant-sources = []\n"

static void build_base(void)
{
	fresh();
	build("store.so", STORE);
	build("kvm.so", HYPERVISOR("kvm"));
}

static void ordinary(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct plugin_host *h;
	struct plugin_info info;

	build_base();
	build("hello.so", SOURCE("hello") " '-DKEYS={ \"greeting\", 1, 0, \"hi\", \"doc\" }'");
	h = start("kernel-variant-sources = [\"hello\"]\n[plugin.hello]\ngreeting = \"moin\"\n", 0, &err);
	is(h, "hello", PLUGIN_LOADED, "");
	is(h, "kvm", PLUGIN_LOADED, "");
	info = info_of(h, "hello");
	CU_ASSERT_STRING_EQUAL(info.version, "1.2");
	CU_ASSERT_EQUAL(info.abi_major, EDERA_ABI_MAJOR);
	CU_ASSERT(info.selected && !info.replaced);
	CU_ASSERT_STRING_EQUAL(edera_conf_str(info.conf, "greeting"), "moin");
	CU_ASSERT_STRING_EQUAL(plugin_host_hypervisor(h)->name, "kvm");
	CU_ASSERT_PTR_NOT_NULL(PLUGIN_OP(plugin_host_hypervisor(h), struct edera_hypervisor_ops, vm_create));
	CU_ASSERT_STRING_EQUAL(plugin_host_image_store(h)->name, "squashfs");
	CU_ASSERT_STRING_EQUAL(plugin_host_variant_source(h, 0)->plugin, "hello");
	CU_ASSERT_PTR_NULL(plugin_host_variant_source(h, 1));
	plugin_host_degrade(h, "kvm", "vm_start did not return within 30 s");
	is(h, "kvm", PLUGIN_DEGRADED, "did not return");
	build("hello.so", SOURCE("hello"));
	CU_ASSERT(info_of(h, "hello").replaced);
	finish(h);
	CU_ASSERT_STRING_EQUAL(trace(), "kvm:probe kvm:init kvm:start squashfs:probe squashfs:init squashfs:start hello:probe hello:init hello:start "
					"hello:stop squashfs:stop kvm:stop hello:fini squashfs:fini kvm:fini ");
}

static void refused(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char path[PATH_CAP];
	struct plugin_host *h;

	build_base();
	build("major.so", SOURCE("major") " -DMAJOR=9");
	build("newer.so", SOURCE("newer") " -DMIN_HOST_MINOR=77");
	build("magic.so", SOURCE("magic") " -DMAGIC=1");
	build("short.so", SOURCE("short") " -DSIZE=40");
	build("long.so", SOURCE("long") " -DSIZE=4000");
	build("nosymbol.so", SOURCE("nosymbol") " -DSYMBOL=other");
	build("badname.so", "-DNAME='\"Bad Name\"'");
	build("noop.so", SOURCE("noop") " -DLIST_OP=NULL");
	build("claims.so", HYPERVISOR("claims") " -DCAPS=2");
	build("silent.so", HYPERVISOR("silent") " -DCONSOLE_OP=hv_op");
	build("kind.so", SOURCE("kind") " -DKIND=42");
	build("keys.so", SOURCE("keys") " '-DKEYS={ \"n\", 2, 0, \"many\", \"doc\" }'");
	build("zz-again.so", SOURCE("squashfs") " -DPROVIDED='\"x\"'");
	build("zz-same.so", SOURCE("same") " -DKIND=2 -DPROVIDED='\"squashfs\"'");
	build("writable.so", SOURCE("writable"));
	snprintf(path, sizeof path, "%s/writable.so", plugins);
	chmod(path, 0666);
	build("alien.so", SOURCE("alien"));
	snprintf(path, sizeof path, "%s/alien.so", plugins);
	CU_ASSERT_EQUAL(chown(path, 1, 1), 0);
	snprintf(path, sizeof path, "%s/link.so", plugins);
	CU_ASSERT_EQUAL(symlink("kvm.so", path), 0);
	put_plugin("text.so", "#!/bin/sh\necho hello\n");
	put_plugin("empty.so", "");
	put_plugin("cut.so", "\177ELF\2\1\1");
	put_plugin("not-one.txt", "hello\n");
	snprintf(path, sizeof path, "%s/dir.so", plugins);
	mkdir(path, 0755);
	build("undefined.so", SOURCE("undefined") " '-DINIT=no_such_function()' -Wl,--unresolved-symbols=ignore-all");

	h = start(NO_SOURCES, 0, &err);
	CU_ASSERT_EQUAL(plugin_host_count(h), 24);
	is(h, "major", PLUGIN_ERROR, "was built for plugin ABI 9." MINOR "; this daemon has 1." MINOR);
	is(h, "newer", PLUGIN_ERROR, "needs plugin ABI 1.77 or newer");
	is(h, "magic", PLUGIN_ERROR, "is not a plugin descriptor");
	is(h, "short", PLUGIN_ERROR, "says that it has 40 bytes");
	is(h, "long", PLUGIN_ERROR, "says that it has 4000 bytes");
	is(h, "nosymbol", PLUGIN_ERROR, "has no symbol edera_plugin_v1");
	is(h, "badname", PLUGIN_ERROR, "bad name");
	is(h, "noop", PLUGIN_ERROR, "must have the op list");
	is(h, "claims", PLUGIN_ERROR, "claims the op vm_console and does not have it");
	is(h, "silent", PLUGIN_ERROR, "has the op vm_console without claiming");
	is(h, "kind", PLUGIN_ERROR, "of kind 42, which this daemon does not know");
	is(h, "keys", PLUGIN_ERROR, "the bad default 'many'");
	is(h, "zz-again", PLUGIN_ERROR, "the name 'squashfs' is taken by");
	is(h, "zz-same", PLUGIN_ERROR, "the plugin squashfs provides the image-store 'squashfs' already");
	is(h, "writable", PLUGIN_ERROR, "is writable by others than root");
	is(h, "alien", PLUGIN_ERROR, "is owned by user 1, not by root");
	is(h, "link", PLUGIN_ERROR, "is a symbolic link");
	is(h, "text", PLUGIN_ERROR, "is not a shared object but a text file");
	is(h, "empty", PLUGIN_ERROR, "is empty");
	is(h, "cut", PLUGIN_ERROR, "is cut short");
	is(h, "dir", PLUGIN_ERROR, "is a directory");
	is(h, "undefined", PLUGIN_ERROR, "no_such_function");
	is(h, "kvm", PLUGIN_LOADED, "");
	finish(h);
	CU_ASSERT_STRING_EQUAL(trace(), "kvm:probe kvm:init kvm:start squashfs:probe squashfs:init squashfs:start "
					"squashfs:stop kvm:stop squashfs:fini kvm:fini ");
}

static void failing(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct plugin_host *h;

	build_base();
	build("probe.so", SOURCE("probe") " -DPROBE=-EIO");
	build("skip.so", SOURCE("skip") " -DPROBE=-ENODEV");
	build("init.so", SOURCE("init") " -DINIT=-EACCES");
	build("start.so", SOURCE("start") " -DSTART=-EBUSY");
	build("off.so", SOURCE("off"));
	build("xen.so", HYPERVISOR("xen"));
	build("cloud.so", HYPERVISOR("cloud-hypervisor") " -DPROBE=-ENODEV");
	h = start(NO_SOURCES "disabled = [\"off\"]\n", 0, &err);
	is(h, "probe", PLUGIN_ERROR, "its probe failed: the hardware is not there");
	is(h, "skip", PLUGIN_SKIPPED, "the hardware is not there");
	is(h, "init", PLUGIN_ERROR, "its init failed: the door is shut");
	is(h, "start", PLUGIN_ERROR, "its start failed: the engine is cold");
	is(h, "off", PLUGIN_DISABLED, "named by plugins.disabled");
	is(h, "xen", PLUGIN_DISABLED, "the configuration uses the hypervisor 'kvm'");
	is(h, "cloud-hypervisor", PLUGIN_SKIPPED, "the hardware is not there");
	/* The failed init's timer would abort the test. */
	for (int i = 0; i < 5; i++) {
		usleep(2000);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	finish(h);
	CU_ASSERT_PTR_NOT_NULL(strstr(trace(), "start:start start:fini "));
}

static void dependencies(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct plugin_host *h;

	build_base();
	build("a.so", SOURCE("a") " " NEED(3, "b"));
	build("b.so", SOURCE("b") " " NEED(3, "c"));
	build("c.so", SOURCE("c"));
	build("x.so", SOURCE("x") " " NEED(3, "y"));
	build("y.so", SOURCE("y") " " NEED(3, "z"));
	build("z.so", SOURCE("z") " " NEED(3, "x"));
	build("dep.so", SOURCE("dep") " " NEED(3, "x"));
	build("lonely.so", SOURCE("lonely") " " NEED(2, "tape"));
	build("below.so", SOURCE("below") " " NEED(3, "sick"));
	build("sick.so", SOURCE("sick") " -DINIT=-EIO");
	build("maybe.so", SOURCE("maybe") " " WANT(2, "tape"));
	build("soft-a.so", SOURCE("soft-a") " " WANT(3, "soft-b"));
	build("soft-b.so", SOURCE("soft-b") " " WANT(3, "soft-a"));
	h = start(NO_SOURCES, 0, &err);
	is(h, "a", PLUGIN_LOADED, "not asked");
	is(h, "x", PLUGIN_ERROR, "in a circle: x -> y -> z -> x");
	is(h, "z", PLUGIN_ERROR, "in a circle");
	is(h, "dep", PLUGIN_ERROR, "it needs variant-source 'x', but the plugin x is error");
	is(h, "lonely", PLUGIN_ERROR, "it needs image-store 'tape', which no plugin provides");
	is(h, "below", PLUGIN_ERROR, "it needs the plugin sick, which is error: its init failed: the door is shut");
	is(h, "maybe", PLUGIN_LOADED, "not asked");
	is(h, "soft-a", PLUGIN_LOADED, "not asked");
	is(h, "soft-b", PLUGIN_LOADED, "not asked");
	finish(h);
	CU_ASSERT_PTR_NOT_NULL(strstr(trace(), "c:probe c:init c:start b:probe b:init b:start a:probe a:init a:start"));
}

static void start_fails(const char *extra, const char *why)
{
	struct edera_error err = EDERA_ERROR_INIT;
	const struct plugin_host_options o = { .data_dir = "/d", .run_dir = "/r", .cache_dir = "/c" };
	_conf_ struct conf *first = conf_of(NULL, extra), *whole = NULL;
	struct plugin_host *h = NULL;
	int r;

	CU_ASSERT_EQUAL_FATAL(plugin_host_new(&loop, &o, &h, &err), 0);
	r = plugin_host_load(h, first, &err);
	if (!r) {
		whole = conf_of(h, extra);
		r = plugin_host_start(h, whole, &err);
	}
	CU_ASSERT(r < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, why));
	if (!strstr(err.msg, why))
		printf("\n  got:  %s\n  want: %s\n", err.msg, why);
	finish(h);
}

static void selection(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct plugin_host *h;

	fresh();
	build("store.so", STORE);
	start_fails(NO_SOURCES, "no hypervisor can be used");
	build("kvm.so", HYPERVISOR("kvm") " -DINIT=-EIO");
	build("sim.so", HYPERVISOR("sim") " -DCAPS=0");
	put_plugin("xen.so", "not a plugin\n");
	start_fails(NO_SOURCES, "no hypervisor can be used: the plugin kvm is error: its init failed: the door is shut");
	start_fails(NO_SOURCES "hypervisor = \"kvm\"\n", "the hypervisor 'kvm', named by plugins.hypervisor, cannot be used: the plugin kvm is error: its init failed");
	start_fails(NO_SOURCES "hypervisor = \"hyper-v\"\n", "no plugin provides it; there are: kvm, sim");
	start_fails(NO_SOURCES "hypervisor = \"xen\"\n", "cannot be used: the plugin xen is error: ");
	start_fails(NO_SOURCES "hypervisor = \"sim\"\nimage-store = \"tape\"\n", "the image-store 'tape', named by plugins.image-store, cannot be used: no plugin provides it; there are: squashfs");
	start_fails("hypervisor = \"sim\"\n", "the variant-source 'config', named by plugins.kernel-variant-sources, cannot be used: no plugin provides it; there are: none");
	h = start(NO_SOURCES "hypervisor = \"sim\"\n", 0, &err);
	CU_ASSERT_STRING_EQUAL(plugin_host_hypervisor(h)->name, "sim");
	finish(h);
	/* auto: the next best when one fails. */
	build("zeta.so", HYPERVISOR("zeta"));
	h = start(NO_SOURCES, 0, &err);
	CU_ASSERT_STRING_EQUAL(plugin_host_hypervisor(h)->name, "zeta");
	is(h, "kvm", PLUGIN_ERROR, "the door is shut");
	finish(h);

	chmod(plugins, 0777);
	start_fails(NO_SOURCES, "cannot use plugins.directory: ");
	path_remove_tree(plugins, NULL);
	start_fails(NO_SOURCES, "cannot use plugins.directory: cannot find");
}

static void reload(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_buf_ struct buf notes = BUF_INIT;
	_conf_ struct conf *now = NULL;
	struct plugin_host *h;

	build_base();
	build("hello.so", SOURCE("hello") " '-DKEYS={ \"greeting\", 1, 0, \"hi\", \"doc\" }'");
	h = start(NO_SOURCES, 0, &err);
	now = conf_of(h, NO_SOURCES "[plugin.hello]\ngreeting = \"moin\"\n");
	plugin_host_reload(h, now, &notes);
	CU_ASSERT_EQUAL(notes.len, 0);
	CU_ASSERT_STRING_EQUAL(edera_conf_str(info_of(h, "hello").conf, "greeting"), "moin");
	CU_ASSERT_PTR_NOT_NULL(strstr(trace(), "hello:reload"));
	finish(h);
}

/* Host services from a thread that is not the loop's. */
struct visitor {
	const struct edera_host *host;
	int fd, ticks, reads;
	uint64_t timer, watch;
};

static void tick(void *user, uint32_t zero)
{
	struct visitor *v = user;

	CU_ASSERT_EQUAL(zero, 0);
	if (++v->ticks == 3)
		CU_ASSERT_EQUAL(v->host->unwatch(v->host->core, v->timer), 0);
}

static void readable(void *user, uint32_t ev)
{
	struct visitor *v = user;
	char c;

	CU_ASSERT(ev & POLLIN);
	CU_ASSERT_EQUAL(read(v->fd, &c, 1), 1);
	v->reads++;
	CU_ASSERT_EQUAL(v->host->unwatch(v->host->core, v->watch), 0);
}

static void *visit(void *user)
{
	struct visitor *v = user;
	uint64_t gone;

	CU_ASSERT_EQUAL(v->host->timer(v->host->core, 1, 1, tick, v, &v->timer), 0);
	CU_ASSERT_EQUAL(v->host->watch_fd(v->host->core, v->fd, POLLIN, readable, v, &v->watch), 0);
	CU_ASSERT_EQUAL(v->host->timer(v->host->core, 0, 0, tick, NULL, &gone), 0);
	CU_ASSERT_EQUAL(v->host->unwatch(v->host->core, gone), 0);
	CU_ASSERT_EQUAL(v->host->unwatch(v->host->core, 12345), -ENOENT);
	CU_ASSERT_EQUAL(v->host->watch_fd(v->host->core, 9999, POLLIN, readable, v, &gone), -EBADF);
	v->host->vm_event(v->host->core, "id", EDERA_VM_EVENT_STOPPED, "bye");
	v->host->vm_event(v->host->core, "id2", EDERA_VM_EVENT_CRASHED, NULL);
	return NULL;
}

/* The services as the plugin got them: its instance points to them. */
static const struct edera_host *services_of(struct plugin_host *h)
{
	const struct plugin_provider *p = plugin_host_variant_source(h, 0);

	return *(const struct edera_host *const *)p->inst;
}

static void services(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct plugin_host *h;
	struct visitor v = { 0 };
	pthread_t thread;
	int pipefd[2];

	build_base();
	build("hello.so", SOURCE("hello"));
	h = start("kernel-variant-sources = [\"hello\"]\n[zone.kernel-variants]\nnv = \"x/y:z\"\n", 0, &err);
	v.host = services_of(h);
	CU_ASSERT_EQUAL(pipe(pipefd), 0);
	v.fd = pipefd[0];
	events[0] = 0;
	pthread_create(&thread, NULL, visit, &v);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(write(pipefd[1], "x", 1), 1);
	for (int i = 0; i < 100 && (v.ticks < 3 || !v.reads); i++)
		uv_run(&loop, UV_RUN_ONCE);
	CU_ASSERT_EQUAL(v.ticks, 3);
	CU_ASSERT_EQUAL(v.reads, 1);
	CU_ASSERT_STRING_EQUAL(events, "hello:id:2:bye;hello:id2:3:-;");
	CU_ASSERT_STRING_EQUAL(v.host->path(v.host->core, EDERA_PATH_CACHE), "/c");
	finish(h);
	close(pipefd[0]);
	close(pipefd[1]);
}

/* Lines that reach stderr when a plugin logs without end. */
static void flood(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct plugin_host *h;
	const struct edera_host *host;
	_buf_ struct buf b = BUF_INIT;
	char path[PATH_CAP];
	int saved = dup(2), lines = 0;

	build_base();
	build("hello.so", SOURCE("hello"));
	h = start("kernel-variant-sources = [\"hello\"]\n", 0, &err);
	host = services_of(h);
	snprintf(path, sizeof path, "%s/log", dir);
	CU_ASSERT_PTR_NOT_NULL(freopen(path, "w", stderr));
	log_set_level(EDERA_LOG_INFO);
	for (int i = 0; i < 5000; i++)
		host->log(host->core, EDERA_LOG_INFO, "a guest's\nbytes \033[31m");
	host->log(host->core, EDERA_LOG_DEBUG, "not at this level");
	log_set_level(0);
	dup2(saved, 2);
	close(saved);
	CU_ASSERT_EQUAL(path_read_file(path, 1 << 20, &b, NULL), 0);
	for (size_t i = 0; i < b.len; i++)
		lines += b.data[i] == '\n';
	CU_ASSERT_EQUAL(lines, 200);
	CU_ASSERT_PTR_NOT_NULL(strstr((char *)b.data, "msg=\"a guest's\\x0abytes \\x1b[31m\" plugin=hello\n"));
	finish(h);
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "an ordinary life", ordinary }, { "refused files", refused }, { "failing plugins", failing }, { "dependencies", dependencies },
		{ "selection", selection }, { "reload", reload }, { "services from other threads", services },
		{ "a flood of log lines", flood }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "plugin loader", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	char path[PATH_CAP];
	unsigned failed;

	if (geteuid() != 0) {
		printf("plugins must be root's, and this is not run by root\n");
		return 77;
	}
	umask(022);
	if (!mkdtemp(dir) || chmod(dir, 0755) || uv_loop_init(&loop) || CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	log_set_level(0);
	snprintf(path, sizeof path, "%s/trace", dir);
	setenv("LOADER_TRACE", path, 1);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	path_remove_tree(dir, NULL);
	return failed || uv_loop_close(&loop) ? 1 : 0;
}
