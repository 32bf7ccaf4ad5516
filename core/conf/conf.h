/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's configuration: one schema (conf/schema.c), read from TOML (daemon.toml) or from libconfuse's own syntax (a file
 * named *.conf). A loaded struct conf never changes and may be read from any thread; whoever keeps one holds a reference.
 *
 * Reading takes two passes, because plugins declare keys of their own: conf_load_plugins takes [plugins] alone, then the
 * plugin files are inspected, then conf_load reads everything. Errors say file, line, key and what was expected. */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <edera/plugin.h>
#include "base/buf.h"

struct conf;

/* A plugin's name and the keys of its section [plugin.NAME] (ended by name NULL; NULL: none). Borrowed, for ever. */
struct conf_plugin {
	const char *name;
	const struct edera_conf_key *keys;
};

/* Pass one: only [plugins] is read, what else the file holds is not judged. */
int conf_load_plugins(const char *path, struct conf **ret, struct edera_error *);
/* Pass two: all of it. A section of a plugin that is not among `plugins` is a warning. path NULL: every default. */
int conf_load(const char *path, const struct conf_plugin *plugins, size_t n_plugins, struct conf **ret, struct edera_error *);
/* The same of a text. */
int conf_load_text(const char *text, bool toml, const struct conf_plugin *plugins, size_t n_plugins, struct conf **ret, struct edera_error *);

struct conf *conf_ref(struct conf *);
void conf_unref(struct conf *); /* NULL is fine */
void conf_unrefp(struct conf **);
#define _conf_ __attribute__((cleanup(conf_unrefp)))

/* What was accepted but has no effect: one sentence each, with file and line, for the log. */
size_t conf_n_warnings(const struct conf *);
const char *conf_warning(const struct conf *, size_t i);

/* Keys are written with dots: "zone.memory-limit-mb". Asking for a key that is not in the schema, or with the wrong type, is a
 * programming error and aborts. Returned memory lives as long as the conf. Unset strings are "". */
const char *conf_str(const struct conf *, const char *key);
int64_t conf_int(const struct conf *, const char *key);
bool conf_bool(const struct conf *, const char *key);
size_t conf_list(const struct conf *, const char *key, const char *const **ret_items);
/* A section with free names ("zone.kernel-variants"), in file order. cb's non-zero return stops the walk and is returned.
 * -ENOENT: the schema has no such section. */
int conf_each(const struct conf *, const char *section, int (*cb)(void *user, const char *key, const char *value), void *user);
/* The value of one free name, or NULL. */
const char *conf_free_name(const struct conf *, const char *section, const char *key);

/* Are a plugin's declared keys sound: names, types, defaults? */
int conf_check_keys(const struct edera_conf_key *, struct edera_error *);
/* A plugin's section as the ABI hands it over: a copy that lives until edera_conf_free. Defaults where the file is silent. */
struct edera_conf *conf_plugin_section(const struct conf *, const struct conf_plugin *);
void edera_conf_free(struct edera_conf *);
/* The host's conf_* services; for a key that was not declared they give "", 0, an empty list. */
const char *edera_conf_str(const struct edera_conf *, const char *key);
int64_t edera_conf_int(const struct edera_conf *, const char *key);
int edera_conf_bool(const struct edera_conf *, const char *key);
size_t edera_conf_list(const struct edera_conf *, const char *key, const char *const **ret_items);
/* Value and default of a key as `protect plugin conf` prints them; secrets print as "(set)". */
void edera_conf_print(const struct edera_conf *, const char *key, struct buf *value, struct buf *def);

/* Reload: which keys differ. A key for which a restart is needed is appended to `restart` (", " between them); keys that take
 * effect at once (log level, [zone], [oci], [zone.kernel-variants]) are appended to `applied`. Either may be NULL.
 * Plugin sections are listed as "plugin.NAME" in `plugins`. */
void conf_diff(const struct conf *old, const struct conf *now, struct buf *restart, struct buf *applied, struct buf *plugins);

/* The commented default file, and writing it; mode 0644. Never overwrites: -EEXIST. */
int conf_print_default(struct buf *);
int conf_write_default(const char *path, struct edera_error *);

/*
 * The schema's keys, with defaults:
 *
 * [daemon]  socket-group "root" · log-level "info" (error, warning, info, debug) · listen [] (more sockets: "unix:///PATH")
 * [zone]    default-kernel-variant "" · memory-limit-mb 1024 · target-memory-mb 0 (the limit) · max-cpus 4 · target-cpus 1 ·
 *           cache-default-kernel true · cache-default-initrd true · launch-timeout-seconds 120 · kernel-options "quiet cryptomgr.notests"
 * [zone.kernel-variants]  NAME = "OCI reference"
 * [oci]     docker-hub-mirror "index.docker.io" · insecure-registries [] ("HOST[:PORT]") · ca-file "" ·
 *           certs-dir "/etc/docker/certs.d" · auth-file "" (auth.json in the data directory) · max-image-mb 65536 · max-image-entries 2000000 · pull-timeout-seconds 1800 ·
 *           containerd-root "/var/lib/containerd" · containerd-address "/run/containerd/containerd.sock" ·
 *           containerd-namespaces ["k8s.io", "default"] · import-idle-seconds 60
 * [plugins] directory · hypervisor "auto" · image-store "squashfs" · kernel-variant-sources ["config", "registry"] · disabled []
 * [plugin.NAME]  what the plugin declares
 */

#endif
