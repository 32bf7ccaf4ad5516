/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/link.h"
#include "base/buf.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zlib.h>

/* A packet before it is stuffed; integers are little-endian. Stuffed by COBS, a zero byte ends it. */
struct packet_head {
	uint8_t type;
	uint8_t flags;
	uint32_t seq;   /* of DATA, from 0 in each epoch and direction */
	uint64_t epoch;
} __attribute__((packed));

enum packet_type {
	PACKET_HELLO = 1, /* host: this is the epoch now */
	PACKET_ACK = 2,   /* guest: agreed */
	PACKET_RESET = 3, /* guest: I cannot follow this epoch (0: I have none), begin another */
	PACKET_DATA = 4,
};

#define FLAG_MORE 1u /* the message goes on in the next packet */
#define PACKET_MIN (sizeof(struct packet_head) + 4)
#define PACKET_MAX (PACKET_MIN + LINK_MAX_PAYLOAD)
#define STUFFED_MAX (PACKET_MAX + PACKET_MAX / 254 + 1)

struct link {
	enum link_role role;
	const struct link_ops *ops;
	void *user;
	bool up, skipping;
	uint32_t tx_seq, rx_seq;
	uint64_t epoch;       /* 0: none yet */
	struct buf in;        /* stuffed bytes of the packet that is arriving */
	struct buf message;   /* payloads of a message that is arriving */
	uint8_t plain[PACKET_MAX], stuffed[STUFFED_MAX + 2];
};

struct link *link_new(enum link_role role, const struct link_ops *ops, void *user)
{
	struct link *l = calloc(1, sizeof *l);

	if (l) {
		l->role = role;
		l->ops = ops;
		l->user = user;
	}
	return l;
}

void link_free(struct link *l)
{
	if (!l)
		return;
	buf_free(&l->in);
	buf_free(&l->message);
	free(l);
}

bool link_is_up(const struct link *l)
{
	return l->up;
}

/* Consistent overhead byte stuffing: no zero in the output, which needs len + len / 254 + 1 bytes at most. */
static size_t stuff(uint8_t *dst, const uint8_t *src, size_t len)
{
	uint8_t *out = dst + 1, *code = dst;

	for (size_t i = 0; i < len; i++) {
		if (src[i])
			*out++ = src[i];
		if (!src[i] || out - code == 255) {
			*code = (uint8_t)(out - code);
			code = out++;
		}
	}
	*code = (uint8_t)(out - code);
	return (size_t)(out - dst);
}

/* In place; returns the length, or 0 if the input is not stuffed. The output never overtakes the input. */
static size_t unstuff(uint8_t *p, size_t len)
{
	size_t n = 0, i = 0;

	while (i < len) {
		size_t run = (size_t)p[i++] - 1;

		if (run > len - i)
			return 0;
		memmove(p + n, p + i, run);
		n += run;
		i += run;
		if (run != 254 && i < len)
			p[n++] = 0;
	}
	return n;
}

/* The zero in front of all but DATA ends whatever a cut connection left half sent. */
static void send_packet(struct link *l, enum packet_type type, uint8_t flags, uint64_t epoch, const uint8_t *data, size_t len)
{
	struct packet_head h = { (uint8_t)type, flags, htole32(type == PACKET_DATA ? l->tx_seq++ : 0), htole64(epoch) };
	size_t n = sizeof h, lead = type != PACKET_DATA;
	uint32_t crc;

	memcpy(l->plain, &h, n);
	if (len)
		memcpy(l->plain + n, data, len);
	n += len;
	crc = htole32((uint32_t)crc32(0, l->plain, (uInt)n));
	memcpy(l->plain + n, &crc, sizeof crc);
	l->stuffed[0] = 0;
	n = lead + stuff(l->stuffed + lead, l->plain, n + sizeof crc);
	l->stuffed[n++] = 0;
	l->ops->output(l->user, l->stuffed, n);
}

static void begin_epoch(struct link *l, uint64_t epoch)
{
	l->epoch = epoch;
	l->tx_seq = l->rx_seq = 0;
	buf_clear(&l->message);
}

void link_open(struct link *l)
{
	uint64_t epoch = 0;

	l->up = false;
	l->skipping = false;
	buf_clear(&l->in);
	while (l->role == LINK_HOST && !epoch)
		if (getrandom(&epoch, sizeof epoch, 0) != sizeof epoch)
			epoch = 0;
	begin_epoch(l, epoch);
	if (l->role == LINK_HOST)
		send_packet(l, PACKET_HELLO, 0, epoch, NULL, 0);
	else
		send_packet(l, PACKET_RESET, 0, 0, NULL, 0);
}

void link_tick(struct link *l)
{
	if (l->role == LINK_HOST && !l->up && l->epoch)
		send_packet(l, PACKET_HELLO, 0, l->epoch, NULL, 0);
}

/* Something of this epoch is lost. The host begins the next one, the guest asks for it. */
static void lose(struct link *l)
{
	if (l->role == LINK_HOST) {
		link_open(l);
	} else {
		l->up = false;
		send_packet(l, PACKET_RESET, 0, l->epoch, NULL, 0);
	}
}

int link_send(struct link *l, const uint8_t *data, size_t len)
{
	if (len > LINK_MAX_MESSAGE)
		return -EMSGSIZE;
	if (!l->up)
		return -ENOTCONN;
	do {
		size_t n = len < LINK_MAX_PAYLOAD ? len : LINK_MAX_PAYLOAD;

		send_packet(l, PACKET_DATA, n < len ? FLAG_MORE : 0, l->epoch, data, n);
		data += n;
		len -= n;
	} while (len);
	return 0;
}

static void data_packet(struct link *l, const struct packet_head *h, const uint8_t *data, size_t len)
{
	if (le64toh(h->epoch) != l->epoch)
		return;
	if (!l->up && l->role == LINK_HOST)
		return; /* its ACK is still to come, or was damaged: the next tick asks again */
	if (!l->up || le32toh(h->seq) != l->rx_seq || l->message.len + len > LINK_MAX_MESSAGE) {
		lose(l);
		return;
	}
	l->rx_seq++;
	if (!l->message.len && !(h->flags & FLAG_MORE)) {
		l->ops->message(l->user, data, len);
		return;
	}
	buf_append(&l->message, data, len);
	if (l->message.failed) {
		buf_free(&l->message);
		lose(l);
	} else if (!(h->flags & FLAG_MORE)) {
		struct buf whole = l->message;

		l->message = (struct buf)BUF_INIT;
		l->ops->message(l->user, whole.data, whole.len);
		buf_free(&whole);
	}
}

static void host_packet(struct link *l, const struct packet_head *h, const uint8_t *data, size_t len)
{
	uint64_t epoch = le64toh(h->epoch);

	if (h->type == PACKET_DATA) {
		data_packet(l, h, data, len);
	} else if (h->type == PACKET_ACK && epoch == l->epoch && !l->up) {
		l->up = true;
		l->ops->up(l->user);
	} else if (h->type == PACKET_RESET && !epoch && !l->up) {
		link_tick(l); /* an agent that has just started: the epoch it has not heard of will do */
	} else if (h->type == PACKET_RESET && l->up && (!epoch || epoch == l->epoch)) {
		lose(l);
	}
}

static void guest_packet(struct link *l, const struct packet_head *h, const uint8_t *data, size_t len)
{
	uint64_t epoch = le64toh(h->epoch);
	bool fresh = !l->up || epoch != l->epoch;

	if (h->type == PACKET_DATA) {
		data_packet(l, h, data, len);
	} else if (h->type == PACKET_HELLO && epoch) {
		if (fresh)
			begin_epoch(l, epoch);
		l->up = true;
		send_packet(l, PACKET_ACK, 0, epoch, NULL, 0);
		if (fresh)
			l->ops->up(l->user);
	}
}

/* Takes the packet that has ended; its bytes may be used up. */
static void take(struct link *l)
{
	uint8_t *p = l->in.data;
	size_t n = unstuff(p, l->in.len);
	struct packet_head h;
	uint32_t crc;

	if (n >= PACKET_MIN && n <= PACKET_MAX) {
		memcpy(&crc, p + n - 4, sizeof crc);
		if (le32toh(crc) == (uint32_t)crc32(0, p, (uInt)(n - 4))) {
			memcpy(&h, p, sizeof h);
			if (l->role == LINK_HOST)
				host_packet(l, &h, p + sizeof h, n - PACKET_MIN);
			else
				guest_packet(l, &h, p + sizeof h, n - PACKET_MIN);
			return;
		}
	}
	if (l->up)
		lose(l);
}

void link_feed(struct link *l, const uint8_t *data, size_t len)
{
	while (len) {
		const uint8_t *end = memchr(data, 0, len);
		size_t n = end ? (size_t)(end - data) : len;

		if (!l->skipping) {
			if (l->in.len + n <= STUFFED_MAX)
				buf_append(&l->in, data, n);
			else
				l->skipping = true;
			if (l->in.failed) {
				buf_free(&l->in);
				l->skipping = true;
			}
		}
		data += n;
		len -= n;
		if (!end)
			return;
		data++;
		len--;
		if (l->skipping) {
			l->skipping = false;
			if (l->up)
				lose(l);
		} else if (l->in.len) {
			take(l);
		}
		buf_clear(&l->in);
	}
}
