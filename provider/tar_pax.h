/* SPDX-License-Identifier: Apache-2.0 */
/* Bits of tar_meta.has: which PAX records were given. */
#ifndef PROVIDER_TAR_PAX_H
#define PROVIDER_TAR_PAX_H

#define PAX_PATH 1u
#define PAX_LINK 2u
#define PAX_SIZE 4u
#define PAX_UID 8u
#define PAX_GID 16u
#define PAX_MTIME 32u
#define PAX_REAL_SIZE 64u
#define PAX_SPARSE 128u
#define PAX_SPARSE_IN_DATA 256u
#define PAX_SPARSE_NAME 512u

#endif
