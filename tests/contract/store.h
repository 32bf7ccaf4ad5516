/* SPDX-License-Identifier: Apache-2.0 */
/* The image store under test, and what its tests are made of. */
#ifndef CONTRACT_STORE_H
#define CONTRACT_STORE_H

#include <edera/image_store.h>
#include <pthread.h>
#include <sys/stat.h>
#include "contract.h"

/* What a test needs; from the options and the table, as capabilities are for hypervisors. */
#define STORE_HAS_IMAGE 1u
#define STORE_HAS_MISSING 2u
#define STORE_HAS_SILENT 4u
#define STORE_HAS_IMPORT 8u

extern const struct edera_image_store_ops *store;
extern void *store_inst;
extern const struct options *store_opt;

int64_t now_ms(void);
/* Calls, the calling thread's, valid until its next one. */
struct edera_call *within_ms(int64_t ms);
struct edera_call *cancelled_after(int64_t ms); /* its descriptor becomes readable then */
#define SOON within_ms(120000)

int pull(const char *reference, uint32_t flags, char digest[EDERA_DIGEST_MAX], struct edera_error *);
int pull_bound(const char *reference, const struct edera_call *, char digest[EDERA_DIGEST_MAX], struct edera_error *);
int import(int fd, const char *name, const char *expected, uint32_t flags, char digest[EDERA_DIGEST_MAX], struct edera_error *);
/* How many entries with this digest (NULL: any) are listed; *ret is the last one, without its names. -1: listing failed. */
int listed(const char *digest, struct edera_image_info *ret);
bool named(const char *digest, const char *name);
int stop_at_once(void *user, const struct edera_image_info *); /* a callback that counts, and returns 42 */
/* The path is absolute and that of a regular file. */
bool file_of(const char *digest, uint32_t which, char path[PATH_CAP], struct stat *);
bool has_digest(const char *digest, uint32_t which, const char *expected);
bool hash_fd(int fd, char ret[EDERA_DIGEST_MAX]); /* sha256 of all of it */
void remove_all(void);

/* What progress was seen. */
struct watched {
	pthread_t thread;
	unsigned calls, last;
	bool elsewhere, backwards, malformed;
};
void watch(void *user, const struct edera_pull_progress *);

struct worker {
	const char *reference;
	struct edera_call call; /* size 0: SOON */
	uint32_t flags;
	unsigned times, storm;  /* storm: 0 pulls, 1 lists, 2 removes */
	int result;
	struct edera_error err;
	char digest[EDERA_DIGEST_MAX];
	pthread_t thread;
};
void run_together(struct worker *, size_t n);

extern const struct test store_tests[], import_tests[];
extern const size_t n_store_tests, n_import_tests;

#endif
