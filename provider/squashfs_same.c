/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that are the same. libsquashfs finds them as well, but by a hash of 32 bits: who makes files whose hashes collide makes it compare
 * each with all before it, for days. So it gets each content once; a file that has it again uses the first one's inode. What is compared is
 * GMAC with a key of this run: 128 bits, several times as fast as a digest, and nobody who does not know the key can make two files collide. */
#include "sink_squashfs.h"
#include "base/cleanup.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct known {
	uint8_t tag[16];
	uint32_t file;      /* number of its inode, plus one; 0: free */
};

struct squashfs_same {
	EVP_CIPHER_CTX *ctx;
	struct known *known;
	uint32_t used, slots; /* slots: a power of two */
	size_t size;
	uint8_t content[SQUASHFS_BLOCK_SIZE];
};

int squashfs_same_new(struct squashfs_same **ret, struct edera_error *err)
{
	struct squashfs_same *t = calloc(1, sizeof *t);
	uint8_t key[16];

	if (t) {
		t->slots = 1024;
		t->known = calloc(t->slots, sizeof *t->known);
		t->ctx = EVP_CIPHER_CTX_new();
	}
	if (t && t->known && t->ctx && getrandom(key, sizeof key, 0) == sizeof key && EVP_EncryptInit_ex(t->ctx, EVP_aes_128_gcm(), NULL, key, NULL) == 1) {
		*ret = t;
		return 0;
	}
	squashfs_same_free(t);
	return err_errno(err, -ENOMEM, "cannot make a squashfs file");
}

void squashfs_same_free(struct squashfs_same *t)
{
	if (!t)
		return;
	EVP_CIPHER_CTX_free(t->ctx);
	free(t->known);
	free(t);
}

void squashfs_same_begin(struct squashfs_same *t) { t->size = 0; }

int squashfs_same_data(struct squashfs_same *t, const void *data, uint64_t n, struct edera_error *err)
{
	if (n > sizeof t->content - t->size)
		return err_set(err, -EIO, "a small file of the image is larger than it said");
	if (data)
		memcpy(t->content + t->size, data, n);
	else
		memset(t->content + t->size, 0, n);
	t->size += n;
	return 0;
}

const uint8_t *squashfs_same_content(const struct squashfs_same *t, size_t *ret_size)
{
	*ret_size = t->size;
	return t->content;
}

/* Where a tag is or would be. */
static struct known *slot_of(struct known *known, uint32_t slots, const uint8_t tag[16])
{
	uint32_t at;

	memcpy(&at, tag, sizeof at);
	for (;; at++) {
		struct known *k = &known[at & (slots - 1)];

		if (!k->file || memcmp(k->tag, tag, sizeof k->tag) == 0)
			return k;
	}
}

static int grow(struct squashfs_same *t)
{
	struct known *more = calloc((size_t)t->slots * 2, sizeof *more);

	if (!more)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->slots; i++)
		if (t->known[i].file)
			*slot_of(more, t->slots * 2, t->known[i].tag) = t->known[i];
	free(t->known);
	t->known = more;
	t->slots *= 2;
	return 0;
}

/* What is authenticated, and not encrypted, is all there is. The same nonce each time: tags are shown to nobody. */
static bool compute_tag(struct squashfs_same *t, uint8_t tag[16])
{
	static const uint8_t nonce[12];
	int n;

	return EVP_EncryptInit_ex(t->ctx, NULL, NULL, NULL, nonce) == 1 && EVP_EncryptUpdate(t->ctx, NULL, &n, t->content, (int)t->size) == 1 &&
	       EVP_EncryptFinal_ex(t->ctx, NULL, &n) == 1 && EVP_CIPHER_CTX_ctrl(t->ctx, EVP_CTRL_GCM_GET_TAG, 16, tag) == 1;
}

int squashfs_same_find(struct squashfs_same *t, uint32_t file, uint32_t *ret_first, struct edera_error *err)
{
	uint8_t tag[16];
	struct known *k;

	if (t->used >= t->slots / 2 && grow(t))
		return err_errno(err, -ENOMEM, "cannot pack a file");
	if (!compute_tag(t, tag))
		return err_set(err, -EIO, "cannot compare a small file with others");
	k = slot_of(t->known, t->slots, tag);
	if (!k->file) {
		memcpy(k->tag, tag, sizeof k->tag);
		k->file = file + 1;
		t->used++;
	}
	*ret_first = k->file - 1;
	return 0;
}
