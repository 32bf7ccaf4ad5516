/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin ABI: what a .so exports and what the daemon gives it.
 *
 * A plugin exports one data symbol, `edera_plugin_v1`, made with EDERA_PLUGIN_DEFINE. It has no undefined reference into
 * the daemon: everything it may ask for is in struct edera_host.
 *
 * ABI history (a struct only ever grows at its end; a major number is for what cannot be done so):
 *   1.0  first version
 *   1.1  image stores: import; struct edera_oci_run: archive_fd, blob_open, blob_new, blob_kept, blob_bad; struct edera_pull: digest
 *
 * Order: the file is checked (owner, mode, parents) and loaded, the descriptor is checked, requirements are resolved,
 * then probe, init and start are called in order of dependency, stop and fini in exactly the reverse. All five are
 * called on one thread, one plugin after another, before any worker runs (stop and fini: after the last worker ended),
 * so global initialisation of libraries (libcurl, libvirt) belongs in init. A plugin is never unloaded.
 *
 * The daemon is a child subreaper and collects, on SIGCHLD, every ended process that detached from its starter and so
 * became its child. It never waits for a child that a library or a plugin forked itself. */
#ifndef EDERA_PLUGIN_H
#define EDERA_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <edera/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EDERA_PLUGIN_MAGIC 0x52454445u /* "EDER", little endian */
#define EDERA_ABI_MAJOR 1
#define EDERA_ABI_MINOR 1
#define EDERA_PLUGIN_SYMBOL "edera_plugin_v1"

enum edera_kind {
	EDERA_KIND_HYPERVISOR = 1,     /* ops: struct edera_hypervisor_ops, <edera/hypervisor.h> */
	EDERA_KIND_IMAGE_STORE = 2,    /* ops: struct edera_image_store_ops, <edera/image_store.h> */
	EDERA_KIND_VARIANT_SOURCE = 3, /* ops: struct edera_variant_source_ops, <edera/variant_source.h> */
};

/* One thing a plugin provides. Arrays of these end with an element whose kind is 0. */
struct edera_provide {
	uint32_t kind;     /* enum edera_kind */
	uint32_t reserved; /* 0 */
	const char *name;  /* what the configuration calls it: "kvm", "squashfs", "registry" */
	uint64_t caps;     /* capability bits of that kind: promises, held to by the contract suite */
	const void *ops;   /* the kind's op table; its first member is its size */
};

/* One thing a plugin needs to be there before it is initialised. Arrays end with kind 0. */
struct edera_require {
	uint32_t kind;    /* enum edera_kind */
	uint32_t soft;    /* 1: may be absent, only the order matters */
	const char *name; /* NULL: any provider of that kind */
};

enum edera_conf_type {
	EDERA_CONF_STRING = 1,
	EDERA_CONF_INT = 2,  /* int64_t */
	EDERA_CONF_BOOL = 3,
	EDERA_CONF_LIST = 4, /* list of strings */
};

#define EDERA_CONF_SECRET 1u /* flag: never printed by `protect plugin conf` or a log */

/* One key of the section [plugin.NAME]. Arrays end with name NULL. */
struct edera_conf_key {
	const char *name; /* lower case, words joined by '-' */
	uint32_t type;    /* enum edera_conf_type */
	uint32_t flags;
	const char *def;  /* default in the syntax of daemon.conf ("auto", "42", "true", "{\"a\", \"b\"}"); NULL = empty */
	const char *doc;  /* one line for `protect plugin conf` and the sample file */
};

struct edera_conf; /* a plugin's validated section; read with the host's conf_* services, valid until fini */

/* What bounds a blocking operation. */
struct edera_call {
	uint32_t size;
	int32_t cancel_fd;   /* becomes readable when the caller has given up; -1 = never */
	int64_t deadline_ns; /* CLOCK_MONOTONIC; 0 = none */
};

enum edera_priority { EDERA_LOG_ERROR = 3, EDERA_LOG_WARNING = 4, EDERA_LOG_INFO = 6, EDERA_LOG_DEBUG = 7 };

enum edera_path {
	EDERA_PATH_DATA = 1,  /* /var/lib/edera/protect: survives reboots */
	EDERA_PATH_RUN = 2,   /* /run/edera: does not */
	EDERA_PATH_CACHE = 3, /* DATA/cache: may be emptied while nothing runs; may be a symlink or another filesystem */
};

/* What happened to a VM; reported by hypervisor plugins from any thread. */
enum edera_vm_event {
	EDERA_VM_EVENT_STARTED = 1,
	EDERA_VM_EVENT_STOPPED = 2, /* powered off or ended: it no longer runs */
	EDERA_VM_EVENT_CRASHED = 3, /* panicked, or its VMM died */
};

/* A child process. Every descriptor not named in fds is closed in it. */
struct edera_spawn {
	uint32_t size;
	uint32_t flags;          /* 0 */
	const char *const *argv; /* argv[0] is an absolute path; ends with NULL */
	const char *const *envp; /* NULL: a minimal environment (PATH, LANG) */
	const int *fds;          /* becomes 0, 1, 2, ... in the child; -1 = /dev/null; borrowed, not closed */
	size_t n_fds;
	uint32_t uid, gid;       /* taken when drop_user is 1; supplementary groups are then cleared */
	uint32_t drop_user;
};

#define EDERA_OCI_ARCHIVE 1u /* archive_fd is given */

/* One run of protect-oci-provider as its unprivileged user. The core adds what [oci] configures (mirrors, insecure
 * registries, CA, limits) and the credentials for the registry named; the plugin names the work and gives descriptors. */
struct edera_oci_run {
	uint32_t size;
	uint32_t flags;               /* EDERA_OCI_* */
	const char *const *args;      /* verb and operands, e.g. {"pull", "REF", NULL}; never credentials */
	const char *auth_json;        /* credentials for this call in the form of docker's auth.json, or NULL */
	int32_t output_fd;            /* file or directory the result is written to, or -1; borrowed */
	int32_t spool_fd;             /* directory for bounded temporary files, or -1; borrowed */
	void (*line)(void *user, const char *json, size_t len); /* each line of its stdout (NUL-terminated); caller's thread */
	void *user;
	int32_t archive_fd;           /* since 1.1, with EDERA_OCI_ARCHIVE: what "archive:-" stands for; a regular file, borrowed */
	/* Also since 1.1. Blobs that need not be fetched, and layers that shall be there next time. Called on the caller's thread while the
	 * provider runs; each may be NULL. The digests are well formed and the provider's word: it is not to be believed. */
	/* The blob, opened for reading only; its size is 0 where it is not known. -ENOENT: not here. The provider verifies what it gets and
	 * fetches it after all if it is wrong. *ret_fd is closed by the core, also below. */
	int (*blob_open)(void *user, const char *digest, uint64_t size, int *ret_fd);
	/* A new file, opened for writing only, to which this layer shall be written while it is fetched. -ENOENT: it is not to be kept. */
	int (*blob_new)(void *user, const char *digest, uint64_t size, int *ret_fd);
	/* The file that blob_new gave holds the whole layer, says the provider. Without this it is nothing. */
	void (*blob_kept)(void *user, const char *digest);
	/* What blob_open gave is not the blob of this digest. */
	void (*blob_bad)(void *user, const char *digest);
};

/* Services of the daemon. Every function may be called from any thread unless it says otherwise. */
struct edera_host {
	uint32_t size;
	uint16_t abi_major, abi_minor;
	void *core; /* pass as first argument */

	void (*log)(void *core, int priority, const char *message); /* guest and registry bytes are escaped for you */

	/* The plugin's own section. Returned memory lives as long as the section. */
	const char *(*conf_str)(const struct edera_conf *, const char *key);
	int64_t (*conf_int)(const struct edera_conf *, const char *key);
	int (*conf_bool)(const struct edera_conf *, const char *key);
	size_t (*conf_list)(const struct edera_conf *, const char *key, const char *const **ret_items);
	/* A section of the daemon's file with free-named keys, e.g. "zone.kernel-variants", in file order.
	 * cb's non-zero return stops the walk and is returned. */
	int (*conf_each)(void *core, const char *section, int (*cb)(void *user, const char *key, const char *value), void *user);

	const char *(*path)(void *core, enum edera_path which); /* absolute, no trailing slash, lives for ever */

	/* Descriptor watches and timers run cb on the daemon's loop thread, where nothing may block.
	 * events: POLLIN, POLLOUT. After unwatch returns on the loop thread, cb is not called again. */
	int (*watch_fd)(void *core, int fd, uint32_t events, void (*cb)(void *user, uint32_t events), void *user, uint64_t *ret_id);
	int (*timer)(void *core, uint64_t after_ms, uint64_t repeat_ms, void (*cb)(void *user, uint32_t zero), void *user, uint64_t *ret_id);
	int (*unwatch)(void *core, uint64_t id);

	/* Starts a child; *ret_pidfd is the caller's to poll, waitid(P_PIDFD) and close. */
	int (*spawn)(void *core, const struct edera_spawn *, int *ret_pidfd, struct edera_error *);

	void (*vm_event)(void *core, const char *vm_id, enum edera_vm_event, const char *detail);

	/* Blocking, on a worker: runs the provider to its end. On failure err holds its sentence. */
	int (*oci_run)(void *core, const struct edera_call *, const struct edera_oci_run *, struct edera_error *);
};

struct edera_plugin {
	uint32_t magic; /* EDERA_PLUGIN_MAGIC */
	uint32_t size;  /* sizeof(struct edera_plugin) */
	uint16_t abi_major, abi_minor;
	uint16_t min_host_minor; /* lowest host ABI minor it can work with */
	uint16_t flags;          /* 0 */
	const char *name;        /* [a-z0-9-]+, unique among loaded plugins */
	const char *version;
	const char *summary;     /* one line */
	const char *license;     /* SPDX expression */
	const struct edera_provide *provides;
	const struct edera_require *needs;    /* NULL: none */
	const struct edera_conf_key *conf;     /* NULL: none */
	/* May be NULL. -ENODEV (or -ENOTSUP): this machine cannot use the plugin; it is listed as skipped with the sentence. */
	int (*probe)(const struct edera_host *, const struct edera_conf *, struct edera_error *);
	int (*init)(const struct edera_host *, const struct edera_conf *, void **ret_inst, struct edera_error *);
	int (*start)(void *inst, struct edera_error *); /* may be NULL */
	/* May be NULL: a restart is needed then. On failure the plugin keeps its old configuration. */
	int (*reload)(void *inst, const struct edera_conf *, struct edera_error *);
	void (*stop)(void *inst); /* may be NULL */
	void (*fini)(void *inst); /* may be NULL; the process ends soon after */
};

#if defined(__GNUC__)
#define EDERA_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define EDERA_PLUGIN_EXPORT
#endif

#define EDERA_PLUGIN_HEAD EDERA_PLUGIN_MAGIC, sizeof(struct edera_plugin), EDERA_ABI_MAJOR, EDERA_ABI_MINOR

/* C only: EDERA_PLUGIN_DEFINE(.name = "hello", .version = "1.0", ...); */
#define EDERA_PLUGIN_DEFINE(...) \
	extern EDERA_PLUGIN_EXPORT const struct edera_plugin edera_plugin_v1; \
	EDERA_PLUGIN_EXPORT const struct edera_plugin edera_plugin_v1 = { \
		.magic = EDERA_PLUGIN_MAGIC, .size = sizeof(struct edera_plugin), \
		.abi_major = EDERA_ABI_MAJOR, .abi_minor = EDERA_ABI_MINOR, __VA_ARGS__ }

#ifdef __cplusplus
}
#endif
#endif
