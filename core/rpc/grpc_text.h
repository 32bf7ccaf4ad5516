/* SPDX-License-Identifier: Apache-2.0 */
/* The small texts of gRPC over HTTP/2. Internal to core/rpc. */
#ifndef RPC_GRPC_TEXT_H
#define RPC_GRPC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "rpc/status.h"

#define GRPC_TEXT_MESSAGE_MAX 2048 /* bytes of a status message that are sent; three times as much when all are encoded */

/* grpc-message. Encoding makes the text valid UTF-8 and cuts it at GRPC_TEXT_MESSAGE_MAX. Both give malloc'd text, NULL without memory.
 * Decoding takes what does not look encoded as it is; the result is valid UTF-8. */
char *grpc_text_encode(const char *message);
char *grpc_text_decode(const char *value, size_t len);

/* grpc-timeout: at most eight digits and a unit. 0 or -EINVAL; the parsed value is capped so that adding it to a clock is safe. */
int grpc_text_parse_timeout(const char *value, size_t len, uint64_t *ret_ns);
void grpc_text_format_timeout(char dst[16], uint64_t timeout_ms);

bool grpc_text_is_content_type(const char *value, size_t len); /* application/grpc, +proto, ;parameters */
int grpc_text_parse_status(const char *value, size_t len);     /* RPC_UNKNOWN if it is no number */

enum rpc_status grpc_text_status_of_http(int http_status); /* of an answer that has no grpc-status */
enum rpc_status grpc_text_status_of_reset(uint32_t http2_error);

#endif
