/* SPDX-License-Identifier: Apache-2.0 */
/* What the listening half (grpc_server.c) and the serving half (grpc_call.c) know of each other. Internal to core/rpc. */
#ifndef RPC_GRPC_SERVER_H
#define RPC_GRPC_SERVER_H

#include "rpc/h2.h"

/* Owner of a connection being served. */
struct grpc_serving {
	struct grpc_server *server;
	struct grpc_peer peer;
};

extern const struct h2_role grpc_call_role; /* its `gone` calls grpc_server_conn_gone */

/* path is "/package.Service/Method". False if there is no such service or it does not serve the method. */
bool grpc_server_lookup(const struct grpc_server *, const char *path, const struct grpc_service **, const struct grpc_method **,
			const ProtobufCMethodDescriptor **);
void grpc_server_conn_gone(struct h2_conn *);
void grpc_call_abandon(struct h2_stream *, enum rpc_status, const char *message); /* ends it now, `closed` included */

#endif
