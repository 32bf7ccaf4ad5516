/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "capabilities.h"
#include <string.h>

#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static void add_text(json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_object_new_string(value));
}

static void add_bool(json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

static void add_number(json_object *o, const char *key, int64_t value)
{
	json_object_object_add(o, key, json_object_new_int64(value));
}

static json_object *add_object(json_object *o, const char *key)
{
	json_object *v = json_object_new_object();

	json_object_object_add(o, key, v);
	return v;
}

static json_object *add_array(json_object *o, const char *key)
{
	json_object *v = json_object_new_array();

	json_object_object_add(o, key, v);
	return v;
}

static void append_text(json_object *array, const char *s)
{
	json_object_array_add(array, json_object_new_string(s));
}

static json_object *texts(const char *const *v, size_t n)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < n; i++)
		append_text(a, v[i]);
	return a;
}

/* ---- environment ---- */

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return n == strcspn(b, "=") && !memcmp(a, b, n);
}

/* Puts KEY=VALUE in place of what has that name, or at the end. */
static void set_env(json_object *env, const char *pair, bool replace)
{
	for (size_t i = 0; i < json_object_array_length(env); i++) {
		if (same_name(json_object_get_string(json_object_array_get_idx(env, i)), pair)) {
			if (replace)
				json_object_array_put_idx(env, i, json_object_new_string(pair));
			return;
		}
	}
	append_text(env, pair);
}

static void set_spec_env(json_object *env, const Protect__Control__V1__ProcessSpec *s)
{
	for (size_t i = 0; s && i < s->n_environment; i++) {
		_free_ char *pair = NULL;

		if (*s->environment[i]->key && !strchr(s->environment[i]->key, '=') &&
		    asprintf(&pair, "%s=%s", s->environment[i]->key, s->environment[i]->value) >= 0)
			set_env(env, pair, true);
	}
}

static json_object *first_env(const struct container_input *in)
{
	json_object *env = json_object_new_array();
	_free_ char *home = NULL, *host = NULL;

	for (size_t i = 0; in->image->env && in->image->env[i]; i++)
		if (strchr(in->image->env[i], '=') && *in->image->env[i] != '=')
			set_env(env, in->image->env[i], true);
	set_spec_env(env, in->q->process);
	set_env(env, DEFAULT_PATH, false);
	if (asprintf(&home, "HOME=%s", in->user->home) >= 0)
		set_env(env, home, false);
	if (asprintf(&host, "HOSTNAME=%s", in->hostname) >= 0)
		set_env(env, host, false);
	if (in->q->process && in->q->process->tty)
		set_env(env, "TERM=xterm", false);
	return env;
}

/* ---- process ---- */

static void add_user(json_object *process, const struct user *u)
{
	json_object *user = add_object(process, "user"), *groups = add_array(user, "additionalGids");

	add_number(user, "uid", u->uid);
	add_number(user, "gid", u->gid);
	for (size_t i = 0; i < u->n_groups; i++)
		json_object_array_add(groups, json_object_new_int64(u->groups[i]));
}

static void add_terminal(json_object *process, const Protect__Control__V1__ProcessSpec *s)
{
	json_object *size;

	add_bool(process, "terminal", s && s->tty);
	json_object_object_del(process, "consoleSize");
	if (!s || !s->tty || !s->terminal_size || !s->terminal_size->rows || !s->terminal_size->columns)
		return;
	size = add_object(process, "consoleSize");
	add_number(size, "height", s->terminal_size->rows < 10000 ? s->terminal_size->rows : 10000);
	add_number(size, "width", s->terminal_size->columns < 10000 ? s->terminal_size->columns : 10000);
}

static json_object *first_args(const struct container_input *in, struct edera_error *err)
{
	const Protect__Control__V1__ProcessSpec *s = in->q->process;
	json_object *args = json_object_new_array();

	if (s && s->n_command) {
		for (size_t i = 0; i < s->n_command; i++)
			append_text(args, s->command[i]);
	} else {
		for (size_t i = 0; in->image->entrypoint && in->image->entrypoint[i]; i++)
			append_text(args, in->image->entrypoint[i]);
		for (size_t i = 0; in->image->cmd && in->image->cmd[i]; i++)
			append_text(args, in->image->cmd[i]);
	}
	if (json_object_array_length(args) && *json_object_get_string(json_object_array_get_idx(args, 0)))
		return args;
	json_object_put(args);
	err_set(err, -EINVAL, "there is nothing to run: the image has neither Entrypoint nor Cmd, and no command was given");
	return NULL;
}

static int add_process(json_object *config, const struct container_input *in, struct edera_error *err)
{
	const Protect__Control__V1__WorkloadSecuritySpec *sec = in->q->security;
	const Protect__Control__V1__ProcessSpec *s = in->q->process;
	const char *cwd = s && *s->working_directory ? s->working_directory : *in->image->working_dir ? in->image->working_dir : "/";
	json_object *process = add_object(config, "process"), *args = first_args(in, err), *limit;
	int adj = 0;

	if (!args)
		return err->code;
	json_object_object_add(process, "args", args);
	if (*cwd != '/')
		return err_set(err, -EINVAL, "the working directory '%s' is not absolute", cwd);
	add_text(process, "cwd", cwd);
	add_terminal(process, s);
	add_user(process, in->user);
	json_object_object_add(process, "env", first_env(in));
	add_bool(process, "noNewPrivileges", sec && sec->no_new_privs);
	if (capabilities_add(process, sec, in->q->capabilities_add, in->q->n_capabilities_add, err))
		return err->code;
	if (in->q->_oom_score_adj_case == EDERA__AGENT__V1__CREATE_WORKLOAD_REQUEST___OOM_SCORE_ADJ_OOM_SCORE_ADJ)
		adj = in->q->oom_score_adj < -998 ? -998 : in->q->oom_score_adj > 1000 ? 1000 : in->q->oom_score_adj;
	add_number(process, "oomScoreAdj", adj); /* the lowest belongs to the agent */
	if (in->max_files) {
		limit = json_object_new_object();
		add_text(limit, "type", "RLIMIT_NOFILE");
		add_number(limit, "soft", 1024);
		add_number(limit, "hard", (int64_t)in->max_files);
		json_object_array_add(add_array(process, "rlimits"), limit);
	}
	return 0;
}

json_object *container_exec(const json_object *base, const Protect__Control__V1__ProcessSpec *s, const struct user *user, struct edera_error *err)
{
	json_object *process = NULL, *env = NULL;
	_free_ char *home = NULL;

	if (!s->n_command || !*s->command[0]) {
		err_set(err, -EINVAL, "there is nothing to run: no command was given");
		return NULL;
	}
	if (*s->working_directory && *s->working_directory != '/') {
		err_set(err, -EINVAL, "the working directory '%s' is not absolute", s->working_directory);
		return NULL;
	}
	if (json_object_deep_copy((json_object *)base, &process, NULL) < 0) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	json_object_object_add(process, "args", texts((const char *const *)s->command, s->n_command));
	if (*s->working_directory)
		add_text(process, "cwd", s->working_directory);
	add_terminal(process, s);
	if (user)
		add_user(process, user);
	json_object_object_get_ex(process, "env", &env);
	if (user && asprintf(&home, "HOME=%s", user->home) >= 0)
		set_env(env, home, true);
	if (s->tty)
		set_env(env, "TERM=xterm", false);
	set_spec_env(env, s);
	return process;
}

/* ---- mounts ---- */

static void add_mount(json_object *mounts, const char *target, const char *type, const char *source, const char *options)
{
	json_object *m = json_object_new_object(), *o;
	_free_ char *copy = strdup(options);
	char *save = NULL;

	add_text(m, "destination", target);
	add_text(m, "type", type);
	add_text(m, "source", source);
	o = add_array(m, "options");
	for (char *w = copy ? strtok_r(copy, ",", &save) : NULL; w; w = strtok_r(NULL, ",", &save))
		append_text(o, w);
	json_object_array_add(mounts, m);
}

static int check_target(const char *path, struct edera_error *err)
{
	if (*path != '/' || strstr(path, "/../") || text_ends(path, "/.."))
		return err_set(err, -EINVAL, "cannot mount at '%s': it must be an absolute path without '..'", path);
	return 0;
}

static int add_mounts(json_object *config, const struct container_input *in, struct edera_error *err)
{
	static const char *const files[] = { "hosts", "hostname", "resolv.conf" };
	bool privileged = in->q->security && in->q->security->privileged;
	json_object *mounts = add_array(config, "mounts");
	char source[PATH_CAP], target[64];

	add_mount(mounts, "/proc", "proc", "proc", "nosuid,noexec,nodev");
	add_mount(mounts, "/dev", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=65536k");
	add_mount(mounts, "/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5");
	add_mount(mounts, "/dev/shm", "tmpfs", "shm", "nosuid,noexec,nodev,mode=1777,size=65536k");
	add_mount(mounts, "/dev/mqueue", "mqueue", "mqueue", "nosuid,noexec,nodev");
	add_mount(mounts, "/sys", "sysfs", "sysfs", privileged ? "nosuid,noexec,nodev,rw" : "nosuid,noexec,nodev,ro");
	if (in->cgroups)
		add_mount(mounts, "/sys/fs/cgroup", "cgroup", "cgroup", privileged ? "nosuid,noexec,nodev,relatime,rw" : "nosuid,noexec,nodev,relatime,ro");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(target, sizeof target, "/etc/%s", files[i]);
		if (path_format(source, err, "%s/%s", in->dir, files[i]))
			return err->code;
		add_mount(mounts, target, "bind", source, "bind,rprivate,rw");
	}
	for (size_t i = 0; i < in->q->n_scratch_paths; i++) {
		if (check_target(in->q->scratch_paths[i], err) || path_format(source, err, "%s/upper/scratch-%zu", in->dir, i))
			return err->code;
		add_mount(mounts, in->q->scratch_paths[i], "bind", source, "bind,rprivate,rw");
	}
	for (size_t i = 0; i < in->q->n_mounts; i++) {
		if (check_target(in->q->mounts[i]->target_path, err))
			return err->code;
		add_mount(mounts, in->q->mounts[i]->target_path, "bind", in->mount_sources[i], in->q->mounts[i]->read_only ? "rbind,rprivate,ro" : "rbind,rprivate,rw");
	}
	return 0;
}

/* ---- isolation ---- */

static void add_namespaces(json_object *linux_, const struct container_input *in)
{
	static const struct { const char *name; int which; } all[] = {
		{ "uts", PROTECT__CONTROL__V1__PROCESS_NAMESPACE__PROCESS_NAMESPACE_UTS },
		{ "ipc", PROTECT__CONTROL__V1__PROCESS_NAMESPACE__PROCESS_NAMESPACE_IPC },
		{ "pid", PROTECT__CONTROL__V1__PROCESS_NAMESPACE__PROCESS_NAMESPACE_PID },
		{ "cgroup", PROTECT__CONTROL__V1__PROCESS_NAMESPACE__PROCESS_NAMESPACE_CGROUP },
	};
	const Protect__Control__V1__WorkloadSecuritySpec *sec = in->q->security;
	json_object *namespaces = add_array(linux_, "namespaces"), *n;

	n = json_object_new_object();
	add_text(n, "type", "mount"); /* without it its root would be the zone's */
	json_object_array_add(namespaces, n);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		bool off = (sec && sec->disable_all_namespaces) || (!in->cgroups && !strcmp(all[i].name, "cgroup"));

		for (size_t k = 0; sec && k < sec->n_disable_namespaces; k++)
			off |= (int)sec->disable_namespaces[k] == all[i].which;
		if (off)
			continue;
		n = json_object_new_object();
		add_text(n, "type", all[i].name);
		json_object_array_add(namespaces, n);
	}
}

static bool has_namespace(json_object *linux_, const char *type)
{
	json_object *all = NULL, *t = NULL;

	json_object_object_get_ex(linux_, "namespaces", &all);
	for (size_t i = 0; i < json_object_array_length(all); i++)
		if (json_object_object_get_ex(json_object_array_get_idx(all, i), "type", &t) && !strcmp(json_object_get_string(t), type))
			return true;
	return false;
}

static void add_seccomp(json_object *linux_, const Protect__Control__V1__WorkloadSecuritySpec *sec)
{
	const Protect__Control__V1__ResolvedSeccompProfile *p = sec ? sec->resolved_seccomp_profile : NULL;
	json_object *o, *calls;

	if (!p || sec->_resolved_seccomp_profile_case != PROTECT__CONTROL__V1__WORKLOAD_SECURITY_SPEC___RESOLVED_SECCOMP_PROFILE_RESOLVED_SECCOMP_PROFILE)
		return;
	o = add_object(linux_, "seccomp");
	add_text(o, "defaultAction", p->default_action);
	if (p->_default_errno_ret_case)
		add_number(o, "defaultErrnoRet", p->default_errno_ret);
	json_object_object_add(o, "architectures", texts((const char *const *)p->architectures, p->n_architectures));
	calls = add_array(o, "syscalls");
	for (size_t i = 0; i < p->n_syscalls; i++) {
		const Protect__Control__V1__ResolvedSeccompSyscallRule *r = p->syscalls[i];
		json_object *rule = json_object_new_object(), *args;

		json_object_array_add(calls, rule);
		json_object_object_add(rule, "names", texts((const char *const *)r->names, r->n_names));
		add_text(rule, "action", r->action);
		if (r->_errno_ret_case)
			add_number(rule, "errnoRet", r->errno_ret);
		args = add_array(rule, "args");
		for (size_t k = 0; k < r->n_args; k++) {
			json_object *arg = json_object_new_object();

			json_object_array_add(args, arg);
			add_number(arg, "index", r->args[k]->index);
			json_object_object_add(arg, "value", json_object_new_uint64(r->args[k]->value));
			if (r->args[k]->_value_two_case)
				json_object_object_add(arg, "valueTwo", json_object_new_uint64(r->args[k]->value_two));
			add_text(arg, "op", r->args[k]->op);
		}
	}
}

static int add_resources(json_object *linux_, const struct container_input *in, struct edera_error *err)
{
	bool privileged = in->q->security && in->q->security->privileged;
	json_object *resources = add_object(linux_, "resources"), *unified, *rule, *devices;

	if (privileged) {
		devices = add_array(resources, "devices");
		rule = json_object_new_object();
		add_bool(rule, "allow", true);
		add_text(rule, "access", "rwm");
		json_object_array_add(devices, rule);
	}
	if (!in->q->n_cgroup_limits || !in->cgroups)
		return 0;
	unified = add_object(resources, "unified");
	for (size_t i = 0; i < in->q->n_cgroup_limits; i++) {
		const Protect__Control__V1__CgroupLimit *l = in->q->cgroup_limits[i];

		if (!*l->limit_name || strchr(l->limit_name, '/') || !strchr(l->limit_name, '.') || text_starts(l->limit_name, "cgroup."))
			return err_set(err, -EINVAL, "'%s' is not a limit of cgroup2, such as memory.max", l->limit_name);
		add_text(unified, l->limit_name, l->value);
	}
	return 0;
}

static void add_paths(json_object *linux_)
{
	static const char *const masked[] = { "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
					      "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap" };
	static const char *const read_only[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger" };

	json_object_object_add(linux_, "maskedPaths", texts(masked, ARRAY_SIZE(masked)));
	json_object_object_add(linux_, "readonlyPaths", texts(read_only, ARRAY_SIZE(read_only)));
}

static int add_linux(json_object *config, const struct container_input *in, struct edera_error *err)
{
	bool privileged = in->q->security && in->q->security->privileged;
	json_object *linux_ = add_object(config, "linux");
	char path[PATH_CAP];

	if (path_format(path, err, "/workloads/%s", in->q->id))
		return err->code;
	add_text(linux_, "cgroupsPath", path);
	add_namespaces(linux_, in);
	if (has_namespace(linux_, "uts"))
		add_text(config, "hostname", in->hostname);
	if (!privileged) {
		add_paths(linux_);
		add_seccomp(linux_, in->q->security);
	}
	return add_resources(linux_, in, err);
}

json_object *container_config(const struct container_input *in, struct edera_error *err)
{
	json_object *config = json_object_new_object(), *root;
	struct edera_error own = EDERA_ERROR_INIT;

	if (!err)
		err = &own;
	add_text(config, "ociVersion", "1.0.2");
	root = add_object(config, "root");
	add_text(root, "path", "rootfs");
	add_bool(root, "readonly", in->q->security && in->q->security->read_only_rootfs);
	if (!add_process(config, in, err) && !add_mounts(config, in, err) && !add_linux(config, in, err))
		return config;
	json_object_put(config);
	return NULL;
}
