/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel variants found in registries: which tags of the configured repositories are kernel images, and under what names. */
#ifndef REGISTRY_REGISTRY_H
#define REGISTRY_REGISTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <edera/variant_source.h>

#define MAX_TAGS 10000          /* of a repository, before globs */
#define MAX_INSPECT (1u << 20)  /* bytes of one answer */
#define RETRY_SECONDS 60        /* a registry that failed is left alone this long */
#define FETCH_SECONDS 120       /* for one repository */
#define PATIENCE_SECONDS 5      /* how long a list waits for news of what it knows an older state of */

struct variant {
	char name[64], tag[129], version[65], digest[136];
};

/* What is known of one repository. */
struct catalog {
	struct variant *list;
	size_t n;
	int64_t fetched; /* seconds since 1970; 0: never */
};

struct repository {
	char *name; /* as configured */
	struct catalog catalog;
	bool read;         /* the file in the cache was looked at */
	bool wanted;       /* somebody asked for fresh answers */
	int64_t failed_at; /* CLOCK_MONOTONIC seconds; 0: it did not */
	int code;          /* of that failure */
	char why[504];
};

struct settings {
	struct settings *next; /* of retired ones */
	struct repository *repositories;
	size_t n_repositories;
	char **tags; /* globs */
	size_t n_tags;
	size_t max_tags;
	int64_t refresh; /* seconds */
};

struct registry {
	const struct edera_host *host;
	int cancel_fd; /* readable once the daemon stops */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t done;  /* a refresh ended */
	struct settings *settings;
	struct settings *retired; /* replaced while a refresh reads them; freed when it ends */
	pthread_t thread;
	bool has_thread, refreshing;
};

/* version.c: <0, 0, >0; "6.9" < "6.18-rc1" < "6.18" < "6.18-nvidia-610.43.02". */
int version_compare(const char *a, const char *b);

/* settings.c */
int settings_read(const struct edera_host *, const struct edera_conf *, struct settings **ret, struct edera_error *);
void settings_free(struct settings *); /* NULL is fine */
bool settings_wants_tag(const struct settings *, const char *tag);

/* catalog.c */
void catalog_free(struct catalog *);
/* Takes the variant in unless it is not sound, or a newer one of its name is there. -ENOMEM or 0. */
int catalog_add(struct catalog *, const struct variant *);
int catalog_parse(const char *json, size_t len, const char *repository, struct catalog *ret); /* -EINVAL: not of our making */
int catalog_load(const struct edera_host *, const char *repository, struct catalog *ret);     /* -ENOENT: not cached */
int catalog_save(const struct edera_host *, const char *repository, const struct catalog *, struct edera_error *);

/* fetch.c: asks the registry. */
int fetch(const struct edera_host *, const struct settings *, const struct edera_call *, const char *repository, struct catalog *ret,
	  struct edera_error *);
/* What one answer of the provider to `inspect` says; false: no kernel image. `tag` is filled in by the caller. */
bool inspect_parse(const char *json, size_t len, struct variant *ret);

/* source.c */
int source_list(void *inst, const struct edera_call *, uint32_t flags, int (*cb)(void *user, const struct edera_variant *), void *user,
		struct edera_error *);
void source_stop(struct registry *);                              /* ends a refresh that is under way */
void source_set_settings(struct registry *, struct settings *now); /* takes it over */

#endif
