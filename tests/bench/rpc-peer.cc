// SPDX-License-Identifier: Apache-2.0
// The peer of rpc.py: what tests/integration/grpc_echo.c does, as far as the bench needs it, on gRPC's own C++ library.
//   rpc-peer serve SOCKET | rpc-peer call SOCKET Unary REPEAT | rpc-peer call SOCKET ServerStream COUNT SIZE
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <grpcpp/grpcpp.h>
#include <string>

#include "echo.grpc.pb.h"

using namespace test::echo::v1;

class Service final : public Echo::Service {
	grpc::Status Unary(grpc::ServerContext *, const EchoRequest *request, EchoReply *reply) override
	{
		reply->set_text(request->text());
		reply->set_data(request->data());
		reply->set_number(1);
		return grpc::Status::OK;
	}

	grpc::Status ServerStream(grpc::ServerContext *, const EchoRequest *request, grpc::ServerWriter<EchoReply> *writer) override
	{
		EchoReply reply;

		reply.set_data(std::string(request->size(), '\0'));
		for (uint64_t i = 1; i <= request->count(); i++) {
			reply.set_number(i);
			if (!writer->Write(reply))
				break;
		}
		return grpc::Status::OK;
	}
};

static double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static int serve(const std::string &socket)
{
	Service service;
	grpc::ServerBuilder builder;

	builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
	builder.RegisterService(&service);
	std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
	if (!server)
		return 1;
	puts("ready");
	fflush(stdout);
	server->Wait();
	return 0;
}

static int unary(Echo::Stub &stub, long repeat)
{
	double start = now();

	for (long i = 0; i < repeat; i++) {
		grpc::ClientContext context;
		EchoRequest request;
		EchoReply reply;

		if (!stub.Unary(&context, request, &reply).ok())
			return 1;
	}
	printf("us_per_call=%.2f\n", (now() - start) * 1e6 / repeat);
	return 0;
}

static int stream(Echo::Stub &stub, uint32_t count, uint32_t size)
{
	grpc::ClientContext context;
	EchoRequest request;
	EchoReply reply;
	double start = now();
	uint64_t messages = 0;

	request.set_count(count);
	request.set_size(size);
	auto reader = stub.ServerStream(&context, request);
	while (reader->Read(&reply))
		messages++;
	if (!reader->Finish().ok() || messages != count)
		return 1;
	printf("seconds=%.4f\n", now() - start);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(argv[2]);
	if (argc < 5 || strcmp(argv[1], "call"))
		return 2;
	auto stub = Echo::NewStub(grpc::CreateChannel(std::string("unix:") + argv[2], grpc::InsecureChannelCredentials()));
	return argc == 5 ? unary(*stub, atol(argv[4])) : stream(*stub, (uint32_t)atol(argv[4]), (uint32_t)atol(argv[5]));
}
