/* SPDX-License-Identifier: Apache-2.0 */
/* The command line, parsed. */
#ifndef PROVIDER_OPTIONS_H
#define PROVIDER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"
#include "platform.h"

enum verb { VERB_PULL, VERB_TAGS, VERB_INSPECT };
enum output_format { FORMAT_SQUASHFS, FORMAT_TAR, FORMAT_DIRECTORY, FORMAT_EROFS };
enum progress_kind { PROGRESS_AUTO, PROGRESS_JSON, PROGRESS_NONE };

#define OPTIONS_LIST_MAX 64

struct options {
	enum verb verb;
	const char *reference;
	struct platform platform;
	bool platform_given;
	const char *auth_file;
	int auth_fd;
	const char *insecure[OPTIONS_LIST_MAX + 1]; /* ends with NULL */
	const char *have[OPTIONS_LIST_MAX + 1];     /* digests of images that need not be fetched; ends with NULL */
	const char *blobs[OPTIONS_LIST_MAX + 1];    /* directories with blobs that need not be fetched; ends with NULL */
	const char *ca, *cert, *key;
	int ca_fd, cert_fd, key_fd;    /* the same, opened by the daemon */
	const char *mirror;            /* of Docker Hub */
	const char *proxy;
	enum output_format format;
	const char *output;
	int output_fd, spool_fd;
	int content_fd;                /* where blobs are asked for before they are fetched: base/content.h */
	int archive_fd;                /* what "-" in a reference stands for */
	int unpack_fd;                 /* file for an archive that is compressed; made by the worker */
	int store_fd;                  /* file for the content of a tar; made by the worker */
	const char *mkfs_erofs;        /* or NULL: where it usually is */
	struct packer *packer;         /* it, started by the worker for an erofs image */
	unsigned level;
	uint32_t max_entries;
	uint64_t max_size;
	uint64_t max_file;             /* of a kernel image's files */
	unsigned timeout;              /* seconds for the whole, 0 = none */
	enum progress_kind progress;
	unsigned downloads;            /* layers at a time */
	const char *sandbox;           /* what of it is in force, once it is */
	bool worker;                   /* started by ourselves: everything that needs more rights is done */
};

/* 0; 1 if all is said (--help, --version); -EINVAL. */
int options_parse(int argc, char **argv, struct options *ret, struct edera_error *);

#endif
