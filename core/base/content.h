/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs by digest, over a SOCK_SEQPACKET socket: the provider's worker, which may open no files, asks whoever started it (the daemon, or
 * its own front half) and gets descriptors. A request and its answer are one message of fixed size each; the one who asks waits for the
 * answer. Whoever serves holds the worker for hostile: at the first message that is not as it should be, the service ends. */
#ifndef BASE_CONTENT_H
#define BASE_CONTENT_H

#include <stdint.h>

#define CONTENT_DIGEST_MAX 136       /* "sha512:" + 128 + NUL */
#define CONTENT_REQUESTS_MAX 20000   /* of one worker: some for each of the most layers that an image may have */

enum content_verb {
	CONTENT_OPEN = 1, /* the blob, for reading; -ENOENT: not here */
	CONTENT_NEW,      /* a file to which it shall be written; -ENOENT: it is not to be kept */
	CONTENT_KEPT,     /* what was written there is the whole blob, and verified */
	CONTENT_BAD,      /* what CONTENT_OPEN gave is not the blob of that digest */
};

struct content_request {
	uint32_t verb;    /* enum content_verb */
	uint32_t zero;
	uint64_t size;    /* of the blob; 0: not known */
	char digest[CONTENT_DIGEST_MAX]; /* ends with NUL */
};

struct content_ops {
	int (*open)(void *user, const char *digest, uint64_t size, int *ret_fd);
	/* The others may be NULL: nothing is kept. */
	int (*create)(void *user, const char *digest, uint64_t size, int *ret_fd);
	void (*kept)(void *user, const char *digest);
	void (*bad)(void *user, const char *digest);
};

struct content {
	int fd;           /* the caller's end, which it closes; nothing here waits for it */
	unsigned served;
	const struct content_ops *ops;
	void *user;
};

/* When the socket is readable: answers one request. 1: wait for the next; 0: it is over. */
int content_serve(struct content *);

/* The other end. What the server said (0, -ENOENT, ...); -EPIPE: nobody is there any more. *ret_fd (NULL for verbs that give none) is the
 * caller's. Waits half a minute at most. */
int content_ask(int fd, enum content_verb, const char *digest, uint64_t size, int *ret_fd);

/* The blob in a directory laid out as <algorithm>/<hex>, for reading; -ENOENT for what is no regular file too. */
int content_open(const char *dir, const char *digest, int *ret_fd);

#endif
