/* SPDX-License-Identifier: Apache-2.0 */
/* What a zone, or a daemon, might put on the channel. The first byte chooses the side and how the bytes are cut; the other side is
 * a real one that has just been connected, so that epochs match. */
#include "base/buf.h"
#include "rpc/link.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct link *ends[2];
static struct buf ways[2];

static void on_output(void *user, const uint8_t *data, size_t len)
{
	buf_append(user, data, len);
}

static void on_up(void *user)
{
}

static void on_message(void *user, const uint8_t *data, size_t len)
{
	if (len > LINK_MAX_MESSAGE)
		abort();
}

static const struct link_ops ops = { on_output, on_up, on_message };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t side, piece;

	if (!size)
		return 0;
	side = data[0] & 1;
	piece = (size_t)(data[0] >> 1) + 1;
	for (size_t i = 0; i < 2; i++)
		ends[i] = link_new(i ? LINK_GUEST : LINK_HOST, &ops, &ways[i]);
	link_open(ends[0]);
	link_feed(ends[1], ways[0].data, ways[0].len);
	link_feed(ends[0], ways[1].data, ways[1].len);
	if (!link_is_up(ends[0]) || !link_is_up(ends[1]))
		abort();
	link_send(ends[side], (const uint8_t *)"x", 1);
	for (size_t at = 1; at < size; at += piece)
		link_feed(ends[side], data + at, size - at < piece ? size - at : piece);
	for (size_t i = 0; i < 2; i++) {
		link_free(ends[i]);
		buf_free(&ways[i]);
	}
	return 0;
}
