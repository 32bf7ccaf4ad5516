/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over a byte channel that loses and cuts bytes whenever the host's end is closed and opened again (virtio-serial, a
 * console). Without I/O: bytes in, bytes out. docs/zone-agent.md has the format.
 *
 * The host names each connection with a random epoch; packets of another epoch are dropped, so that nothing of an older connection
 * is taken for one of this. Within an epoch messages arrive in order, each once, or the epoch ends: a packet that is damaged or
 * missing makes the guest ask for, and the host begin, the next one. Sending again what was lost is the business of the layer above,
 * which hears of each new epoch through `up`. */
#ifndef RPC_LINK_H
#define RPC_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_MAX_MESSAGE (1u << 20)  /* bytes of one message; longer ones are cut into packets */
#define LINK_MAX_PAYLOAD (32u << 10) /* bytes of message in one packet */

enum link_role { LINK_HOST, LINK_GUEST };

struct link;

/* No callback may free the link or call link_open or link_feed. */
struct link_ops {
	void (*output)(void *user, const uint8_t *data, size_t len); /* bytes for the channel */
	void (*up)(void *user);                                      /* a new epoch: nothing sent before has a future */
	void (*message)(void *user, const uint8_t *data, size_t len);
};

struct link *link_new(enum link_role, const struct link_ops *, void *user); /* NULL: no memory */
void link_free(struct link *);
/* Host: the channel was opened; begins a new epoch. Guest: it was opened or the agent has started; asks for one. */
void link_open(struct link *);
/* Host, while not up: asks again. To be called some times a second until up. */
void link_tick(struct link *);
bool link_is_up(const struct link *);
/* 0; -ENOTCONN when not up; -EMSGSIZE; -ENOMEM (the epoch is over then). */
int link_send(struct link *, const uint8_t *data, size_t len);
void link_feed(struct link *, const uint8_t *data, size_t len);

#endif
