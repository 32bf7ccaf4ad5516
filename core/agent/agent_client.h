/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the agent protocol: calls to one zone's agent, and processes in it as streams of bytes. Everything here
 * runs on the thread of one uv loop; nothing blocks. The channel may die at any byte and be replaced (agent_client_attach):
 * calls in flight are sent again, no byte of a process's output or input is lost or doubled. What comes from the zone
 * is checked before it is believed; a zone that breaks the protocol loses its channel, never more. */
#ifndef AGENT_AGENT_CLIENT_H
#define AGENT_AGENT_CLIENT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include "base/error.h"
#include "edera/agent/v1/agent.pb-c.h"

struct agent_client;

struct agent_client_ops {
	/* The agent answers on the channel given last; `instance` differs from the last time when the zone was rebooted (its
	 * processes are gone then: their pumps end with -ESTALE). Called once per attach, at earliest after attach has returned. What is called
	 * from here reaches the agent before the calls that waited for it. */
	void (*connected)(struct agent_client *, uint64_t instance, void *user);
	/* The channel given last is closed and gone; open another and attach it, or free the client. Called once per attach, at
	 * earliest after attach has returned. Nothing fails because of it: calls wait for their timeout. */
	void (*lost)(struct agent_client *, const struct edera_error *why, void *user);
};

struct agent_client *agent_client_new(uv_loop_t *, const struct agent_client_ops *, void *user); /* NULL: no memory */
/* fd: connected byte stream, non-blocking; taken over also on failure. An earlier channel is closed without `lost`. A zone that
 * has not booted yet is no error: the handshake goes on until it answers. */
int agent_client_attach(struct agent_client *, int fd, struct edera_error *);
bool agent_client_connected(const struct agent_client *);
/* Pending calls end with -ECANCELED, pumps with -ECANCELED, callbacks included, before it returns. May be called from any of the callbacks.
 * Handles are closed on the loop, so it must turn once more. */
void agent_client_free(struct agent_client *);

/* Exactly one of reply and err is set; both are borrowed for the call. err->code is a negative errno (through rpc_errno_of_status for what
 * the agent said; -ETIMEDOUT, -ECANCELED). */
typedef void (*agent_answer)(void *user, const ProtobufCMessage *reply, const struct edera_error *err);
/* method: rpc name in service edera.agent.v1.Agent ("CreateWorkload"); request: of that rpc's type, copied. The answer may come
 * late (until timeout_ms; 0 = as long as the client lives), never from within this call. */
void agent_call(struct agent_client *, const char *method, const ProtobufCMessage *request, uint64_t timeout_ms, agent_answer, void *user);

/* ---- processes ---- */

struct agent_process;

enum agent_stream { AGENT_STDOUT = 1, AGENT_STDERR = 2 };

struct agent_exit {
	int code;   /* 0..255; 128+N when signal N ended it */
	int signal; /* 0: it exited by itself */
	bool oom;
};

struct agent_process_ops {
	/* Output in order. offset: of data[0] in that stream, counted from the process's first byte; a daemon that
	 * keeps a log resumes from its end with agent_process_open. */
	void (*output)(struct agent_process *, enum agent_stream, uint64_t offset, const uint8_t *data, size_t len, void *user);
	void (*writable)(struct agent_process *, void *user); /* after agent_process_write said -EAGAIN; may be NULL */
	/* Exactly once, last, after all output was handed over: exit is set, or err (the process could not be started or is not known, the
	 * zone was rebooted (-ESTALE), the client freed (-ECANCELED)). agent_process_free is still to be called, from here or later. */
	void (*done)(struct agent_process *, const struct agent_exit *, const struct edera_error *err, void *user);
};

struct agent_offsets { uint64_t out, err; };

/* Starts a process in the zone, or in a workload, and follows it. id: unique in the zone, [A-Za-z0-9._-]{1,64}. */
struct agent_process *agent_process_exec(struct agent_client *, const Edera__Agent__V1__ExecRequest *, const struct agent_process_ops *, void *user);
/* Follows a process that is there: a workload's (its id is the workload's, after CreateWorkload was answered) or one found by List.
 * from NULL: the oldest bytes the zone still holds. What is written goes behind what the zone already has. One follower a process. */
struct agent_process *agent_process_open(struct agent_client *, const char *id, const struct agent_offsets *from, const struct agent_process_ops *,
					 void *user);
void agent_process_pause(struct agent_process *); /* `output` is not called until resume; the zone holds the rest */
void agent_process_resume(struct agent_process *); /* never calls back from within */
/* Queues stdin. 0; -EAGAIN: the queue is full, nothing was taken, `writable` follows; -EPIPE: closed here or there. */
int agent_process_write(struct agent_process *, const uint8_t *data, size_t len);
void agent_process_close_stdin(struct agent_process *);
void agent_process_resize(struct agent_process *, uint32_t rows, uint32_t columns);
void agent_process_signal(struct agent_process *, int signal); /* 0: the one its image wants to be stopped with, else SIGTERM */
/* Lets go of it. release: a process of Exec is killed if it still runs and forgotten by the zone; without it (a workload's, or one to
 * be opened again) it goes on. `done` is not called any more. Accepts NULL. */
void agent_process_free(struct agent_process *, bool release);

#endif
