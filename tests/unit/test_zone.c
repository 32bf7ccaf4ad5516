/* SPDX-License-Identifier: Apache-2.0 */
/* The zone agent's parts that need no zone: the ring, users of an image, an image's configuration, the container made of it. */
#include "base/cleanup.h"
#include "container.h"
#include "image_config.h"
#include "ring.h"
#include "users.h"

#include <CUnit/Basic.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

/* ---- ring ---- */

static void test_ring(void)
{
	struct ring r = { 0 };
	uint64_t written = 0;
	uint8_t copy[5000], *at;

	srand(3);
	for (int i = 0; i < 20000; i++) {
		size_t want = (size_t)rand() % 5000 + 1, n = ring_room(&r, want, &at);
		uint64_t from;

		CU_ASSERT(n <= want);
		CU_ASSERT(n || r.end - r.base == RING_MAX);
		for (size_t k = 0; k < n; k++)
			at[k] = (uint8_t)((written + k) * 31 >> 3);
		ring_commit(&r, n);
		written += n;
		CU_ASSERT_EQUAL(r.end, written);
		from = r.base + (uint64_t)rand() % (r.end - r.base + 1);
		n = ring_copy(&r, from, copy, sizeof copy);
		CU_ASSERT_EQUAL(n, r.end - from < sizeof copy ? r.end - from : sizeof copy);
		for (size_t k = 0; k < n; k++)
			if (copy[k] != (uint8_t)((from + k) * 31 >> 3)) {
				CU_FAIL("a byte differs");
				break;
			}
		if (rand() % 3)
			ring_release(&r, from);
	}
	ring_release(&r, UINT64_MAX);
	CU_ASSERT_EQUAL(r.base, r.end);
	ring_release(&r, 0);
	CU_ASSERT_EQUAL(r.base, r.end);
	ring_free(&r);
}

/* ---- users ---- */

static char root[] = "/tmp/test_zone.XXXXXX";

static void put(const char *name, const char *text)
{
	char path[PATH_CAP];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", root, name);
	f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
}

static void passwd_and_group(void)
{
	char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/etc", root);
	mkdir(path, 0755);
	put("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nbroken\nx:y\napp:x:1000:1001:An app:/home/app:/bin/sh\n12:x:77:78::/home/12:\n"
			  "odd:x:99999999999999999999:1:::\n");
	put("etc/group", "root:x:0:\napp:x:1001:\nwheel:x:10:root,app\nlogs:x:20:application,app\nno:x:30:apple\n");
}

static void test_users(void)
{
	static const struct { const char *user; int r; uint32_t uid, gid; size_t groups; const char *home; } cases[] = {
		{ "", 0, 0, 0, 1, "/root" },	       { "0", 0, 0, 0, 1, "/root" },	     { "root", 0, 0, 0, 1, "/root" },
		{ "app", 0, 1000, 1001, 2, "/home/app" }, { "1000", 0, 1000, 1001, 2, "/home/app" }, { "1234", 0, 1234, 0, 0, "/" },
		{ "app:wheel", 0, 1000, 10, 0, "/home/app" }, { "app:5", 0, 1000, 5, 0, "/home/app" }, { "1234:logs", 0, 1234, 20, 0, "/" },
		{ "nobody", -ENOENT, 0, 0, 0, NULL },  { "app:nogroup", -ENOENT, 0, 0, 0, NULL }, { "odd", -ENOENT, 0, 0, 0, NULL },
		{ "12", 0, 12, 0, 0, "/" }, /* a number is a number, whatever a line calls itself */
		{ "broken", -ENOENT, 0, 0, 0, NULL },
	};
	_close_ int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	passwd_and_group();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct edera_error err = EDERA_ERROR_INIT;
		struct user u = { 0 };
		int r = user_resolve(fd, cases[i].user, &u, &err);

		CU_ASSERT_EQUAL(r, cases[i].r);
		if (r || cases[i].r)
			continue;
		CU_ASSERT_EQUAL(u.uid, cases[i].uid);
		CU_ASSERT_EQUAL(u.gid, cases[i].gid);
		CU_ASSERT_EQUAL(u.n_groups, cases[i].groups);
		CU_ASSERT_STRING_EQUAL(u.home, cases[i].home);
	}
}

/* An image whose passwd points out of it, or is no file, or is without end. */
static void test_hostile_users(void)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_close_ int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[PATH_CAP];
	struct user u;

	passwd_and_group();
	snprintf(path, sizeof path, "%s/etc/passwd", root);
	unlink(path);
	CU_ASSERT_FATAL(symlink("../../../../../../../etc/passwd", path) == 0);
	CU_ASSERT_EQUAL(user_resolve(fd, "daemon", &u, &err), -ENOENT); /* resolves to itself, below the root */
	unlink(path);
	CU_ASSERT_FATAL(symlink("/dev/zero", path) == 0);
	CU_ASSERT_EQUAL(user_resolve(fd, "daemon", &u, &err), -ENOENT);
	unlink(path);
	CU_ASSERT_FATAL(mkfifo(path, 0644) == 0);
	CU_ASSERT_EQUAL(user_resolve(fd, "daemon", &u, &err), -EINVAL);
	unlink(path);
	CU_ASSERT_FATAL(mkdir(path, 0755) == 0);
	CU_ASSERT_EQUAL(user_resolve(fd, "daemon", &u, &err), -EINVAL);
	rmdir(path);
	put("etc/passwd", "");
	CU_ASSERT_FATAL(truncate(path, 1ll << 32) == 0);
	CU_ASSERT_EQUAL(user_resolve(fd, "daemon", &u, &err), -EINVAL);
	unlink(path);
	CU_ASSERT_EQUAL(user_resolve(fd, "0", &u, &err), 0);
}

/* ---- image configuration ---- */

static int parse(const char *json, struct image_config *c)
{
	struct edera_error err = EDERA_ERROR_INIT;
	int r = image_config_parse(json, strlen(json), c, &err);

	CU_ASSERT(r == 0 || (err.code == r && *err.msg));
	return r;
}

static void test_image_config(void)
{
	static const char *const bad[] = { "{", "[]", "7", "nonsense", "{\"config\":[]}", "{\"config\":{\"Env\":{}}}", "{\"config\":{\"Env\":[1]}}",
					   "{\"config\":{\"Cmd\":[\"a\\u0000b\"]}}", "{\"config\":{\"User\":7}}", "{\"config\":{\"Cmd\":[\"\xff\"]}}",
					   "{\"config\":{\"Entrypoint\":\"/bin/sh\"}}" };
	const struct { const char *name; int number; } signals[] = {
		{ "SIGQUIT", 3 }, { "INT", 2 }, { "9", 9 }, { "SIGRTMIN+3", SIGRTMIN + 3 }, { "RTMIN", SIGRTMIN }, { "", 0 }, { "SIGNONE", 0 }, { "65", 0 }, { "RTMIN+31", 0 },
	};
	struct image_config c;
	_buf_ struct buf deep = BUF_INIT;

	CU_ASSERT_EQUAL(parse("", &c), 0);
	CU_ASSERT(!c.env && !c.cmd && !*c.user);
	image_config_free(&c);
	CU_ASSERT_EQUAL(parse("{\"config\":{\"Env\":[\"A=1\",\"B=\"],\"Cmd\":null,\"Entrypoint\":[\"/a\",\"b\"],\"User\":\"app\",\"WorkingDir\":\"/w\"}}", &c), 0);
	CU_ASSERT_STRING_EQUAL(c.env[1], "B=");
	CU_ASSERT_STRING_EQUAL(c.entrypoint[1], "b");
	CU_ASSERT_PTR_NULL(c.entrypoint[2]);
	CU_ASSERT_PTR_NULL(c.cmd);
	CU_ASSERT_STRING_EQUAL(c.user, "app");
	CU_ASSERT_STRING_EQUAL(c.working_dir, "/w");
	image_config_free(&c);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		char json[128];

		snprintf(json, sizeof json, "{\"config\":{\"StopSignal\":\"%s\"}}", signals[i].name);
		CU_ASSERT_EQUAL(parse(json, &c), 0);
		CU_ASSERT_EQUAL(c.stop_signal, signals[i].number);
		image_config_free(&c);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CU_ASSERT(parse(bad[i], &c) < 0);
	for (int i = 0; i < 100000; i++)
		buf_puts(&deep, "[");
	CU_ASSERT(parse((char *)deep.data, &c) < 0);
}

/* ---- container ---- */

static json_object *at(json_object *o, const char *path)
{
	char *copy = strdup(path), *save = NULL;

	for (char *k = strtok_r(copy, "/", &save); k && o; k = strtok_r(NULL, "/", &save))
		o = json_object_is_type(o, json_type_array) ? json_object_array_get_idx(o, (size_t)atoi(k)) : json_object_object_get(o, k);
	free(copy);
	return o;
}

static bool has(json_object *array, const char *text)
{
	for (size_t i = 0; array && i < json_object_array_length(array); i++)
		if (!strcmp(json_object_get_string(json_object_array_get_idx(array, i)), text))
			return true;
	return false;
}

static json_object *make(Edera__Agent__V1__CreateWorkloadRequest *q, const char *image_json, int expect)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct image_config image;
	struct user user = { .uid = 5, .gid = 6, .n_groups = 1, .groups = { 7 }, .home = "/home/five" };
	struct container_input in = { .q = q, .image = &image, .user = &user, .dir = "/run/edera/workloads/w", .hostname = "host", .cgroups = true };
	char *sources[] = { (char *)"/run/edera/workloads/w/mounts/0" };
	json_object *o;

	in.mount_sources = sources;
	CU_ASSERT_EQUAL_FATAL(parse(image_json, &image), 0);
	o = container_config(&in, &err);
	CU_ASSERT_EQUAL(err.code, expect);
	CU_ASSERT_EQUAL(o == NULL, expect != 0);
	image_config_free(&image);
	return o;
}

#define IMAGE "{\"config\":{\"Env\":[\"PATH=/p\",\"A=1\"],\"Entrypoint\":[\"/entry\"],\"Cmd\":[\"one\",\"two\"],\"WorkingDir\":\"/w\"}}"

static void test_container_defaults(void)
{
	Edera__Agent__V1__CreateWorkloadRequest q = EDERA__AGENT__V1__CREATE_WORKLOAD_REQUEST__INIT;
	json_object *o;

	q.id = (char *)"w";
	o = make(&q, IMAGE, 0);
	CU_ASSERT_STRING_EQUAL(json_object_to_json_string_ext(at(o, "process/args"), JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE), "[\"/entry\",\"one\",\"two\"]");
	CU_ASSERT_STRING_EQUAL(json_object_get_string(at(o, "process/cwd")), "/w");
	CU_ASSERT(has(at(o, "process/env"), "PATH=/p") && has(at(o, "process/env"), "HOME=/home/five") && !has(at(o, "process/env"), "TERM=xterm"));
	CU_ASSERT_EQUAL(json_object_get_int(at(o, "process/user/uid")), 5);
	CU_ASSERT_EQUAL(json_object_get_int(at(o, "process/user/additionalGids/0")), 7);
	CU_ASSERT(!json_object_get_boolean(at(o, "process/terminal")));
	CU_ASSERT(has(at(o, "process/capabilities/bounding"), "CAP_CHOWN") && !has(at(o, "process/capabilities/bounding"), "CAP_SYS_ADMIN"));
	CU_ASSERT(has(at(o, "linux/maskedPaths"), "/proc/kcore"));
	CU_ASSERT_STRING_EQUAL(json_object_get_string(at(o, "hostname")), "host");
	json_object_put(o);
	make(&q, "{}", -EINVAL);
	make(&q, "{\"config\":{\"Cmd\":[\"\"]}}", -EINVAL);
	make(&q, "{\"config\":{\"Cmd\":[\"a\"],\"WorkingDir\":\"rel\"}}", -EINVAL);
}

static void test_container_overrides(void)
{
	Edera__Agent__V1__CreateWorkloadRequest q = EDERA__AGENT__V1__CREATE_WORKLOAD_REQUEST__INIT;
	Protect__Control__V1__ProcessSpec s = PROTECT__CONTROL__V1__PROCESS_SPEC__INIT;
	Protect__Control__V1__WorkloadSecuritySpec sec = PROTECT__CONTROL__V1__WORKLOAD_SECURITY_SPEC__INIT;
	Protect__Control__V1__EnvironmentVariableSpec env = PROTECT__CONTROL__V1__ENVIRONMENT_VARIABLE_SPEC__INIT, *envs[] = { &env };
	Protect__Control__V1__CgroupLimit limit = PROTECT__CONTROL__V1__CGROUP_LIMIT__INIT, *limits[] = { &limit };
	Edera__Agent__V1__Mount mount = EDERA__AGENT__V1__MOUNT__INIT, *mounts[] = { &mount };
	char *command[] = { (char *)"/cmd" }, *drop[] = { (char *)"ALL" }, *raise[] = { (char *)"cap_net_admin", (char *)"KILL" };
	json_object *o;

	q.id = (char *)"w";
	q.process = &s;
	q.security = &sec;
	s.command = command;
	s.n_command = 1;
	s.tty = true;
	env.key = (char *)"A";
	env.value = (char *)"2=3";
	s.environment = envs;
	s.n_environment = 1;
	sec.drop_capabilities = drop;
	sec.n_drop_capabilities = 1;
	sec.raise_capabilities = raise;
	sec.n_raise_capabilities = 2;
	limit.limit_name = (char *)"memory.max";
	limit.value = (char *)"1000";
	q.cgroup_limits = limits;
	q.n_cgroup_limits = 1;
	mount.target_path = (char *)"/data";
	mount.read_only = true;
	q.mounts = mounts;
	q.n_mounts = 1;
	o = make(&q, IMAGE, 0);
	CU_ASSERT_EQUAL(json_object_array_length(at(o, "process/args")), 1);
	CU_ASSERT(has(at(o, "process/env"), "A=2=3") && !has(at(o, "process/env"), "A=1") && has(at(o, "process/env"), "TERM=xterm"));
	CU_ASSERT(json_object_get_boolean(at(o, "process/terminal")));
	CU_ASSERT_STRING_EQUAL(json_object_get_string(at(o, "linux/resources/unified/memory.max")), "1000");
	CU_ASSERT(!has(at(o, "process/capabilities/bounding"), "CAP_CHOWN"));
	json_object_put(o);
	/* what would leave the container */
	mount.target_path = (char *)"/data/../../etc";
	make(&q, IMAGE, -EINVAL);
	mount.target_path = (char *)"data";
	make(&q, IMAGE, -EINVAL);
	mount.target_path = (char *)"/data";
	limit.limit_name = (char *)"../x.max";
	make(&q, IMAGE, -EINVAL);
	limit.limit_name = (char *)"cgroup.procs";
	make(&q, IMAGE, -EINVAL);
	limit.limit_name = (char *)"memory.max";
	raise[0] = (char *)"CAP_FLY";
	make(&q, IMAGE, -EINVAL);
	raise[0] = (char *)"KILL";
	sec.privileged = true;
	o = make(&q, IMAGE, 0);
	CU_ASSERT_PTR_NULL(at(o, "linux/maskedPaths"));
	json_object_put(o);
}

static void test_exec(void)
{
	Protect__Control__V1__ProcessSpec s = PROTECT__CONTROL__V1__PROCESS_SPEC__INIT;
	Edera__Agent__V1__CreateWorkloadRequest q = EDERA__AGENT__V1__CREATE_WORKLOAD_REQUEST__INIT;
	struct edera_error err = EDERA_ERROR_INIT;
	char *command[] = { (char *)"id" };
	json_object *o, *e;

	q.id = (char *)"w";
	o = make(&q, IMAGE, 0);
	CU_ASSERT_PTR_NULL(container_exec(at(o, "process"), &s, NULL, &err));
	s.command = command;
	s.n_command = 1;
	s.working_directory = (char *)"/tmp";
	e = container_exec(at(o, "process"), &s, NULL, &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	CU_ASSERT_STRING_EQUAL(json_object_get_string(at(e, "args/0")), "id");
	CU_ASSERT_STRING_EQUAL(json_object_get_string(at(e, "cwd")), "/tmp");
	CU_ASSERT(has(at(e, "env"), "A=1"));
	CU_ASSERT_STRING_EQUAL(json_object_get_string(at(o, "process/args/0")), "/entry"); /* the container's own is as it was */
	json_object_put(e);
	json_object_put(o);
}

int main(void)
{
	CU_pSuite s;
	unsigned failed;

	if (!mkdtemp(root))
		return 1;
	CU_initialize_registry();
	s = CU_add_suite("zone", NULL, NULL);
	CU_ADD_TEST(s, test_ring);
	CU_ADD_TEST(s, test_users);
	CU_ADD_TEST(s, test_hostile_users);
	CU_ADD_TEST(s, test_image_config);
	CU_ADD_TEST(s, test_container_defaults);
	CU_ADD_TEST(s, test_container_overrides);
	CU_ADD_TEST(s, test_exec);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	path_remove_tree(root, NULL);
	return failed != 0;
}
