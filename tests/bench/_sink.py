"""Takes OTLP/gRPC traces on the port it is given, and forgets them."""

import asyncio
import sys

import grpc

SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"


async def take(_, __):
    """Every request is taken."""
    return b""


async def main(port):
    """Serve until the end."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    handler = grpc.unary_unary_rpc_method_handler(take)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"Export": handler}),)
    )
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
