/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between this process's stdio and a stream of the daemon: back-pressure both ways, raw mode and window size where asked
 * for, the terminal given back whatever happens. */
#ifndef CLI_PUMP_H
#define CLI_PUMP_H

#include "cli/cli.h"

struct pump;

struct pump_spec {
	enum service service;
	const char *method;
	const void *first;  /* message that opens the stream */
	/* Puts bytes of stdin into a message and sends it; data NULL: stdin has ended. NULL: stdin is left alone and the
	 * stream is half closed at once. Returns what grpc_stream_send returned. */
	int (*send_input)(struct grpc_stream *, const uint8_t *data, size_t n, void *user);
	int (*send_size)(struct grpc_stream *, uint32_t rows, uint32_t columns, void *user); /* NULL: no interest */
	/* Takes a message of the stream apart with pump_output and pump_finish. */
	void (*reply)(struct pump *, const ProtobufCMessage *, void *user);
	void *user;
	bool raw;    /* a terminal on stdin becomes raw; Ctrl+] leaves then */
	bool guard;  /* what comes may not command the terminal: see guard.h */
	bool hold_open; /* with send_input NULL: the stream is not half closed */
};

enum pump_end { PUMP_DONE, PUMP_DETACHED, PUMP_SIGNAL };

struct pump_result {
	enum pump_end end;
	int value; /* PUMP_DONE: what pump_finish said, else 0; PUMP_SIGNAL: which */
};

struct pump *pump_open(struct cli *, const struct pump_spec *, struct edera_error *); /* the spec is borrowed until pump_close */
/* Moves bytes until the stream has ended, by itself or by pump_finish, and all output is written. A stream that ends with an error
 * is one. If nobody reads stdout any more, ends the program as SIGPIPE would. */
int pump_run(struct pump *, struct pump_result *, struct edera_error *);
void pump_close(struct pump *);

/* Open, run, close, and what a verb returns: 0, 128 + a signal's number, or the error. */
int pump_whole(struct cli *, const struct pump_spec *, struct pump_result *, struct edera_error *);

void pump_output(struct pump *, int fd, const void *data, size_t n); /* fd 1 or 2 */
void pump_finish(struct pump *, int value); /* what is still to come does not matter */

#endif
