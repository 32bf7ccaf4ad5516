/* SPDX-License-Identifier: Apache-2.0 */
#include "capabilities.h"

#include "base/cleanup.h"
#include "base/text.h"
#include <linux/capability.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>

#define BIT(c) (1ull << (c))
/* What a container has unless it is told otherwise, as docker and containerd do it. */
#define DEFAULT_SET                                                                                                                       \
	(BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FSETID) | BIT(CAP_FOWNER) | BIT(CAP_MKNOD) | BIT(CAP_NET_RAW) | BIT(CAP_SETGID) | \
	 BIT(CAP_SETUID) | BIT(CAP_SETFCAP) | BIT(CAP_SETPCAP) | BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_SYS_CHROOT) | BIT(CAP_KILL) |         \
	 BIT(CAP_AUDIT_WRITE))

static const char *const names[] = {
	[CAP_CHOWN] = "CHOWN", [CAP_DAC_OVERRIDE] = "DAC_OVERRIDE", [CAP_DAC_READ_SEARCH] = "DAC_READ_SEARCH", [CAP_FOWNER] = "FOWNER",
	[CAP_FSETID] = "FSETID", [CAP_KILL] = "KILL", [CAP_SETGID] = "SETGID", [CAP_SETUID] = "SETUID", [CAP_SETPCAP] = "SETPCAP",
	[CAP_LINUX_IMMUTABLE] = "LINUX_IMMUTABLE", [CAP_NET_BIND_SERVICE] = "NET_BIND_SERVICE", [CAP_NET_BROADCAST] = "NET_BROADCAST",
	[CAP_NET_ADMIN] = "NET_ADMIN", [CAP_NET_RAW] = "NET_RAW", [CAP_IPC_LOCK] = "IPC_LOCK", [CAP_IPC_OWNER] = "IPC_OWNER",
	[CAP_SYS_MODULE] = "SYS_MODULE", [CAP_SYS_RAWIO] = "SYS_RAWIO", [CAP_SYS_CHROOT] = "SYS_CHROOT", [CAP_SYS_PTRACE] = "SYS_PTRACE",
	[CAP_SYS_PACCT] = "SYS_PACCT", [CAP_SYS_ADMIN] = "SYS_ADMIN", [CAP_SYS_BOOT] = "SYS_BOOT", [CAP_SYS_NICE] = "SYS_NICE",
	[CAP_SYS_RESOURCE] = "SYS_RESOURCE", [CAP_SYS_TIME] = "SYS_TIME", [CAP_SYS_TTY_CONFIG] = "SYS_TTY_CONFIG", [CAP_MKNOD] = "MKNOD",
	[CAP_LEASE] = "LEASE", [CAP_AUDIT_WRITE] = "AUDIT_WRITE", [CAP_AUDIT_CONTROL] = "AUDIT_CONTROL", [CAP_SETFCAP] = "SETFCAP",
	[CAP_MAC_OVERRIDE] = "MAC_OVERRIDE", [CAP_MAC_ADMIN] = "MAC_ADMIN", [CAP_SYSLOG] = "SYSLOG", [CAP_WAKE_ALARM] = "WAKE_ALARM",
	[CAP_BLOCK_SUSPEND] = "BLOCK_SUSPEND", [CAP_AUDIT_READ] = "AUDIT_READ", [CAP_PERFMON] = "PERFMON", [CAP_BPF] = "BPF",
	[CAP_CHECKPOINT_RESTORE] = "CHECKPOINT_RESTORE",
};

/* Those this kernel has and we may hand on. */
static uint64_t possible(void)
{
	uint64_t set = 0;

	for (unsigned c = 0; c < ARRAY_SIZE(names); c++)
		if (prctl(PR_CAPBSET_READ, c) == 1)
			set |= BIT(c);
	return set;
}

static int bits_of(const char *name, uint64_t *set, struct edera_error *err)
{
	const char *s = !strncasecmp(name, "CAP_", 4) ? name + 4 : name;

	if (!strcasecmp(s, "ALL")) {
		*set = ~0ull;
		return 0;
	}
	for (unsigned c = 0; c < ARRAY_SIZE(names); c++)
		if (!strcasecmp(names[c], s)) {
			*set = BIT(c);
			return 0;
		}
	return err_set(err, -EINVAL, "'%s' is not a capability", name);
}

static int bits_of_all(char *const *list, size_t n, uint64_t *set, struct edera_error *err)
{
	uint64_t one = 0;

	for (size_t i = 0; i < n; i++) {
		if (bits_of(list[i], &one, err))
			return err->code;
		*set |= one;
	}
	return 0;
}

static json_object *list_of(uint64_t set)
{
	json_object *a = json_object_new_array();
	char name[40];

	for (unsigned c = 0; c < ARRAY_SIZE(names); c++)
		if (set & BIT(c)) {
			snprintf(name, sizeof name, "CAP_%s", names[c]);
			json_object_array_add(a, json_object_new_string(name));
		}
	return a;
}

int capabilities_add(json_object *process, const Protect__Control__V1__WorkloadSecuritySpec *sec, char *const *more, size_t n_more, struct edera_error *err)
{
	uint64_t set = DEFAULT_SET, ambient = 0, drop = 0, all = possible();
	json_object *o;

	if (bits_of_all(more, n_more, &set, err))
		return err->code;
	if (sec && (bits_of_all(sec->raise_capabilities, sec->n_raise_capabilities, &set, err) ||
		    bits_of_all(sec->raise_ambient_capabilities, sec->n_raise_ambient_capabilities, &ambient, err) ||
		    bits_of_all(sec->drop_capabilities, sec->n_drop_capabilities, &drop, err)))
		return err->code;
	if (drop == ~0ull) { /* dropping all keeps what is raised by name */
		set = 0;
		bits_of_all(more, n_more, &set, NULL);
		if (sec)
			bits_of_all(sec->raise_capabilities, sec->n_raise_capabilities, &set, NULL);
	} else {
		set &= ~drop;
	}
	if (sec && sec->privileged)
		set = ~0ull;
	set = (set | ambient) & all;
	o = json_object_new_object();
	json_object_object_add(process, "capabilities", o);
	json_object_object_add(o, "bounding", list_of(set));
	json_object_object_add(o, "effective", list_of(set));
	json_object_object_add(o, "permitted", list_of(set));
	json_object_object_add(o, "inheritable", list_of(ambient & all));
	json_object_object_add(o, "ambient", list_of(ambient & all));
	return 0;
}
