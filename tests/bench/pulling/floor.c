/* SPDX-License-Identifier: Apache-2.0 */
/* floor LAYER...: prints the CPU seconds it takes to hash each layer, inflate it, and hash what comes out; nothing else is done with it.
 * gzip by ISA-L and zstd by libzstd, SHA-256 by OpenSSL: the fastest there are. */
#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#define CHUNK (256 << 10)

static uint8_t in[CHUNK], out[CHUNK];
static struct inflate_state gz;

static void die(const char *what)
{
	fprintf(stderr, "floor: %s\n", what);
	exit(1);
}

static void hash(EVP_MD_CTX *h, const void *data, size_t n)
{
	if (n && !EVP_DigestUpdate(h, data, n))
		die("cannot hash");
}

static void gzip_chunk(size_t n, EVP_MD_CTX *tar)
{
	gz.next_in = in;
	gz.avail_in = (uint32_t)n;
	do {
		gz.next_out = out;
		gz.avail_out = sizeof out;
		if (isal_inflate(&gz) != ISAL_DECOMP_OK)
			die("bad gzip data");
		hash(tar, out, sizeof out - gz.avail_out);
	} while (gz.avail_out == 0);
}

static void zstd_chunk(ZSTD_DStream *z, size_t n, EVP_MD_CTX *tar)
{
	ZSTD_inBuffer i = { in, n, 0 };
	ZSTD_outBuffer o;

	do {
		o = (ZSTD_outBuffer){ out, sizeof out, 0 };
		if (ZSTD_isError(ZSTD_decompressStream(z, &o, &i)))
			die("bad zstd data");
		hash(tar, out, o.pos);
	} while (i.pos < i.size || o.pos == o.size);
}

static void layer(const char *path, ZSTD_DStream *z, EVP_MD_CTX *blob, EVP_MD_CTX *tar)
{
	static const uint8_t zstd_magic[] = { 0x28, 0xb5, 0x2f, 0xfd };
	int fd = open(path, O_RDONLY | O_CLOEXEC), zstd = -1;
	uint8_t digest[EVP_MAX_MD_SIZE];
	ssize_t n;

	if (fd < 0 || !EVP_DigestInit_ex(blob, EVP_sha256(), NULL) || !EVP_DigestInit_ex(tar, EVP_sha256(), NULL))
		die(path);
	ZSTD_initDStream(z);
	isal_inflate_init(&gz);
	gz.crc_flag = ISAL_GZIP;
	while ((n = read(fd, in, sizeof in)) > 0) {
		hash(blob, in, (size_t)n);
		if (zstd < 0)
			zstd = n > 4 && !memcmp(in, zstd_magic, sizeof zstd_magic);
		if (zstd)
			zstd_chunk(z, (size_t)n, tar);
		else
			gzip_chunk((size_t)n, tar);
	}
	if (n < 0 || !EVP_DigestFinal_ex(blob, digest, NULL) || !EVP_DigestFinal_ex(tar, digest, NULL))
		die(path);
	close(fd);
}

int main(int argc, char **argv)
{
	EVP_MD_CTX *blob = EVP_MD_CTX_new(), *tar = EVP_MD_CTX_new();
	ZSTD_DStream *z = ZSTD_createDStream();
	struct timespec t;

	if (!blob || !tar || !z)
		die("no memory");
	ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, 27);
	for (int i = 1; i < argc; i++)
		layer(argv[i], z, blob, tar);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	printf("%.3f\n", (double)t.tv_sec + (double)t.tv_nsec / 1e9);
	return 0;
}
