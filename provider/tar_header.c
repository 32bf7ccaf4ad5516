/* SPDX-License-Identifier: Apache-2.0 */
#include "tar_header.h"
#include "tar_pax.h"

#include <stdlib.h>
#include <string.h>

bool tar_block_is_zero(const uint8_t block[TAR_BLOCK_SIZE])
{
	return block[0] == 0 && memcmp(block, block + 1, TAR_BLOCK_SIZE - 1) == 0;
}

void tar_meta_reset(struct tar_meta *m)
{
	m->pending = false;
	buf_clear(&m->gnu_path);
	buf_clear(&m->gnu_link);
	buf_clear(&m->pax_text);
	buf_clear(&m->xattrs);
	m->n_xattrs = 0;
	m->xattrs_dropped = 0;
	m->has = 0;
	m->sparse = m->sparse_in_data = m->old_sparse_more = false;
	m->n_extents = 0;
	m->real_size = 0;
}

void tar_meta_free(struct tar_meta *m)
{
	buf_free(&m->gnu_path);
	buf_free(&m->gnu_link);
	buf_free(&m->pax_text);
	buf_free(&m->xattrs);
	free(m->extents);
}

/* Base-256: the first bit says so, the second is the sign. */
static int binary_number(const uint8_t *field, size_t n, int64_t *ret)
{
	bool negative = field[0] & 0x40;
	uint64_t v = negative ? ~0ull : 0;

	for (size_t i = 0; i < n; i++) {
		uint8_t b = i ? field[i] : (uint8_t)(negative ? field[0] : field[0] & 0x7f);

		if (i + 8 < n ? b != (negative ? 0xff : 0) : false)
			return -EBADMSG;
		v = v << 8 | b;
	}
	*ret = (int64_t)v;
	return (*ret < 0) == negative ? 0 : -EBADMSG;
}

int tar_number(const uint8_t *field, size_t n, int64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if (field[0] & 0x80)
		return binary_number(field, n, ret);
	while (i < n && (field[i] == ' ' || field[i] == 0))
		i++;
	for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(field[i] - '0');
	for (; i < n; i++)
		if (field[i] != ' ' && field[i] != 0)
			return -EBADMSG;
	*ret = (int64_t)v;
	return 0;
}

int tar_header_check(const uint8_t block[TAR_BLOCK_SIZE], uint64_t *ret_size, struct edera_error *err)
{
	int64_t want, size, sum = 0, sum_signed = 0;

	for (int i = 0; i < TAR_BLOCK_SIZE; i++) {
		uint8_t b = i >= 148 && i < 156 ? ' ' : block[i];

		sum += b;
		sum_signed += (int8_t)b;
	}
	if (tar_number(block + 148, 8, &want) || (want != sum && want != sum_signed))
		return err_set(err, -EBADMSG, "its checksum is wrong");
	if (tar_number(block + 124, 12, &size) || size < 0)
		return err_set(err, -EBADMSG, "its size is not a number");
	*ret_size = (uint64_t)size;
	return 0;
}

/* Bounded copy of a header field that need not end in NUL; `at` bytes of dst are in use. */
static size_t append_field(char *dst, size_t at, const uint8_t *field, size_t n)
{
	n = strnlen((const char *)field, n);
	memcpy(dst + at, field, n);
	dst[at + n] = 0;
	return at + n;
}

static int copy_name(char dst[TAR_PATH_MAX + 1], const char *from, size_t len, struct edera_error *err)
{
	if (len > TAR_PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "the name '%.60s...' in the layer is longer than %d bytes", from, TAR_PATH_MAX);
	memcpy(dst, from, len);
	dst[len] = 0;
	return 0;
}

/* GNU's long names end in NUL; what a PAX value holds was checked when it was read. */
static int choose_names(struct tar_meta *m, const uint8_t *block, struct edera_error *err)
{
	bool gnu = memcmp(block + 257, "ustar  ", 8) == 0, ustar = memcmp(block + 257, "ustar", 6) == 0;
	bool star = ustar && memcmp(block + 508, "tar", 4) == 0;
	size_t at = 0;
	int r = 0;

	if (m->has & PAX_SPARSE_NAME)
		r = copy_name(m->path, m->pax_sparse_name, strlen(m->pax_sparse_name), err);
	else if (m->has & PAX_PATH)
		r = copy_name(m->path, m->pax_path, strlen(m->pax_path), err);
	else if (m->gnu_path.len)
		r = copy_name(m->path, (char *)m->gnu_path.data, strlen((char *)m->gnu_path.data), err);
	else {
		if (ustar && !gnu && block[345]) {
			at = append_field(m->path, 0, block + 345, star ? 131 : 155);
			m->path[at++] = '/';
		}
		append_field(m->path, at, block, 100);
	}
	if (r)
		return r;
	if (m->has & PAX_LINK)
		return copy_name(m->link, m->pax_link, strlen(m->pax_link), err);
	if (m->gnu_link.len)
		return copy_name(m->link, (char *)m->gnu_link.data, strlen((char *)m->gnu_link.data), err);
	append_field(m->link, 0, block + 157, 100);
	return 0;
}

static int choose_owner(struct tar_meta *m, const uint8_t *block, struct tar_entry *e, struct edera_error *err)
{
	int64_t mode, uid, gid, mtime, major = 0, minor = 0;
	bool ustar = memcmp(block + 257, "ustar", 5) == 0;

	if (tar_number(block + 100, 8, &mode) || tar_number(block + 108, 8, &uid) || tar_number(block + 116, 8, &gid) ||
	    tar_number(block + 136, 12, &mtime))
		return err_set(err, -EBADMSG, "'%.200s': the tar header holds something that is not a number", m->path);
	if (e->type == TAR_CHAR || e->type == TAR_BLOCK)
		if (!ustar || tar_number(block + 329, 8, &major) || tar_number(block + 337, 8, &minor))
			return err_set(err, -EBADMSG, "'%.200s': the device numbers in the tar header are not numbers", m->path);
	if (m->has & PAX_UID)
		uid = (int64_t)m->pax_uid;
	if (m->has & PAX_GID)
		gid = (int64_t)m->pax_gid;
	if (uid < 0 || uid > 0xfffffffell || gid < 0 || gid > 0xfffffffell)
		return err_set(err, -ERANGE, "'%.200s': owner %lld:%lld is out of range", m->path, (long long)uid, (long long)gid);
	if (major < 0 || major > 0xfff || minor < 0 || minor > 0xfffff)
		return err_set(err, -ERANGE, "'%.200s': device number %lld:%lld is out of range", m->path, (long long)major, (long long)minor);
	e->mode = (uint32_t)mode & 07777;
	e->uid = (uint32_t)uid;
	e->gid = (uint32_t)gid;
	e->mtime = m->has & PAX_MTIME ? m->pax_mtime : mtime;
	e->major = (uint32_t)major;
	e->minor = (uint32_t)minor;
	return 0;
}

static int old_sparse_header(struct tar_meta *m, const uint8_t *block, struct edera_error *err)
{
	int64_t real;
	bool more = block[482] != 0;

	if (tar_number(block + 483, 12, &real) || real < 0)
		return err_set(err, -EBADMSG, "'%.200s': the size of the sparse file is not a number", m->path);
	m->sparse = true;
	m->real_size = (uint64_t)real;
	for (int i = 0; i < 4; i++) {
		const uint8_t *p = block + 386 + i * 24;
		int64_t offset, length;

		if (p[0] == 0)
			break;
		if (tar_number(p, 12, &offset) || tar_number(p + 12, 12, &length) || offset < 0 || length < 0)
			return err_set(err, -EBADMSG, "'%.200s': the map of the sparse file is not numbers", m->path);
		if (tar_meta_add_extent(m, (uint64_t)offset, (uint64_t)length, err))
			return err ? err->code : -EBADMSG;
	}
	m->old_sparse_more = more;
	return 0;
}

int tar_meta_sparse_block(struct tar_meta *m, const uint8_t block[TAR_BLOCK_SIZE], bool *ret_more, struct edera_error *err)
{
	for (int i = 0; i < 21; i++) {
		const uint8_t *p = block + i * 24;
		int64_t offset, length;
		int r;

		if (p[0] == 0)
			break;
		if (tar_number(p, 12, &offset) || tar_number(p + 12, 12, &length) || offset < 0 || length < 0)
			return err_set(err, -EBADMSG, "'%.200s': the map of the sparse file is not numbers", m->path);
		r = tar_meta_add_extent(m, (uint64_t)offset, (uint64_t)length, err);
		if (r)
			return r;
	}
	*ret_more = block[504] != 0;
	return 0;
}

static int entry_type(struct tar_meta *m, uint8_t flag, uint64_t size, enum tar_type *ret)
{
	size_t n = strlen(m->path);

	switch (flag) {
	case 0:
	case '0':
	case '7':
		/* Old ones mark directories so; with data, it is a file all the same. */
		*ret = n && m->path[n - 1] == '/' && size == 0 ? TAR_DIR : TAR_FILE;
		return 0;
	case 'S':
		*ret = TAR_FILE;
		return 0;
	case '1':
		*ret = TAR_HARDLINK;
		return 0;
	case '2':
		*ret = TAR_SYMLINK;
		return 0;
	case '3':
		*ret = TAR_CHAR;
		return 0;
	case '4':
		*ret = TAR_BLOCK;
		return 0;
	case '5':
		*ret = TAR_DIR;
		return 0;
	case '6':
		*ret = TAR_FIFO;
		return 0;
	}
	return 1;
}

static int sparse_kind(struct tar_meta *m, const uint8_t *block, struct edera_error *err)
{
	if (block[156] == 'S' && memcmp(block + 257, "ustar  ", 8) == 0)
		return old_sparse_header(m, block, err);
	if (block[156] == 'S')
		return err_set(err, -EBADMSG, "'%.200s': a sparse file outside of a GNU tar header", m->path);
	if (!(m->has & PAX_SPARSE))
		return 0;
	if (!(m->has & PAX_REAL_SIZE))
		return err_set(err, -EBADMSG, "'%.200s': a sparse file without its size", m->path);
	m->sparse = true;
	m->real_size = m->pax_real_size;
	m->sparse_in_data = m->has & PAX_SPARSE_IN_DATA;
	return 0;
}

int tar_meta_entry(struct tar_meta *m, const uint8_t block[TAR_BLOCK_SIZE], uint64_t *size, struct tar_entry *e, struct edera_error *err)
{
	int r;

	memset(e, 0, sizeof *e);
	r = choose_names(m, block, err);
	if (r)
		return r;
	if (m->has & PAX_SIZE)
		*size = m->pax_size;
	if (*size > INT64_MAX)
		return err_set(err, -EBADMSG, "'%.200s': the size in its tar header is out of range", m->path);
	if (entry_type(m, block[156], *size, &e->type))
		return 1;
	r = choose_owner(m, block, e, err);
	if (r)
		return r;
	if (e->type != TAR_FILE) {
		*size = 0; /* headers of these kinds have no body, whatever the field says */
		return 0;
	}
	return sparse_kind(m, block, err);
}

void tar_meta_fill(struct tar_meta *m, uint64_t stored, struct tar_entry *ret)
{
	ret->path = m->path;
	ret->link = m->link;
	ret->size = m->sparse ? m->real_size : stored;
	ret->xattrs = m->xattrs.data;
	ret->xattrs_len = m->xattrs.len;
	ret->xattrs_dropped = m->xattrs_dropped;
}
