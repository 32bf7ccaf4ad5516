/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the command: the loop, the daemon's client, and what verbs share. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <uv.h>
#include "base/buf.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/format/format.h"
#include "protect/control/v1/control.pb-c.h"
#include "edera/node/v1/node.pb-c.h"
#include "rpc/grpc.h"

#define CLI_USAGE 2       /* exit status of a command line that makes no sense */
#define CLI_INTERRUPTED 130
#define CLI_SIGNALS 3

struct cli {
	const struct command *root;
	uint64_t timeout_ms;    /* of calls; 0: none */
	const char *connection; /* what --connection or the environment says, or NULL */
	uv_loop_t loop;
	bool loop_ready;
	struct grpc_client *client;
	uv_signal_t signals[CLI_SIGNALS]; /* see interrupt.h */
	bool catching, interrupted;
	uint64_t interrupted_at; /* by uv_hrtime; 0: never */
};

/* ---- talking to the daemon ---- */

enum service { CONTROL, NODE };

#define _message_ __attribute__((cleanup(cli_free_message)))
void cli_free_message(void *pointer_to_message_pointer);

/* Connects if that has not been done. The sentence of a failure says what to do. */
int cli_connect(struct cli *, struct edera_error *);
void cli_close(struct cli *);
const ProtobufCServiceDescriptor *cli_service(enum service);
/* One request, one answer; *(TYPE **)ret is a message of the method's output type, for _message_. */
int cli_call(struct cli *, enum service, const char *method, const void *request, void *ret, struct edera_error *);
/* One request, any number of answers, kept. */
struct replies {
	void **v;
	size_t n;
};
#define _replies_ __attribute__((cleanup(cli_free_replies)))
int cli_collect(struct cli *, enum service, const char *method, const void *request, struct replies *ret, struct edera_error *);
void cli_free_replies(struct replies *);
/* The daemon's answer as a sentence for a person; returns its errno. */
int cli_status_error(struct edera_error *, enum rpc_status, const char *method, const char *message);
void *cli_copy_message(const void *message);
/* Runs the loop until *flag is not zero. */
void cli_run_until(struct cli *, const int *flag);

/* ---- names ---- */

/* The id that a name or an id stands for; "unable to resolve zone 'X'" if there is none. Freed by the caller. */
bool cli_begins_id(const char *id, const char *wanted); /* or is it; six characters at least */
/* By name, id or the beginning of an id that is no other's. */
int cli_resolve_zone(struct cli *, const char *name, char **ret_id, struct edera_error *);
int cli_resolve_workload(struct cli *, const char *name, char **ret_id, struct edera_error *);

/* ---- printing ---- */

/* To stdout, whole. A reader that has gone ends the program quietly, as it ends any other. */
void cli_print(const struct buf *);
void cli_puts(const char *line); /* with a newline */
void cli_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* "protect: ..." on stderr */
/* Says it and returns CLI_USAGE. */
int cli_bad_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- lists ---- */

/* What every list verb takes; put in the verb's arguments as `list` and in its options by LIST_OPTIONS. */
struct list_args {
	const char *output;
	struct strings selectors;
};
#define LIST_OUTPUT(type) \
	{ "output", 'o', OPT_STRING, AT(type, list.output), "FORMAT", "how to print", .def = "table", .choices = format_names, .alias = "format", .alias_letter = 'f' }
#define LIST_SELECTOR(type) \
	{ "selector", 'l', OPT_LIST, AT(type, list.selectors), "FIELD=VALUE", "only what has this value there, e.g. status.state=ready; != for the others" }

struct list {
	const void **rows;
	size_t n;
};
#define _list_ __attribute__((cleanup(list_free)))
void list_add(struct list *, const void *row);
void list_free(struct list *);
/* Leaves what all selectors match. Returns 0, or CLI_USAGE after saying why. */
int list_select(struct list *, const struct strings *selectors, const ProtobufCMessageDescriptor *);
void list_sort(struct list *, int (*compare)(const void *, const void *)); /* is given rows, not pointers to them */
/* Selects and prints. */
int list_print(struct list *, const struct list_args *, const struct list_view *, const ProtobufCMessageDescriptor *);

#endif
