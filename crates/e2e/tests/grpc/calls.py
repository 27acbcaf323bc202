"""A gRPC server, and a client that calls it through a proxy: each kind of call, statuses, metadata and large messages.

usage: calls.py server         prints the port, and serves
       calls.py client TARGET  prints one line for each call
"""

import sys
import threading
import time
from concurrent import futures

import grpc

METHODS = "/test.Echo/"


def unary(request, context):
    context.send_initial_metadata((("x-initial", "early"),))
    context.set_trailing_metadata((("x-trailing", "late"), ("x-data-bin", b"\x00\xff")))
    return request.upper()


def fail(request, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no: ünfit")


def fail_late(request, context):
    yield b"one"
    context.abort(grpc.StatusCode.DATA_LOSS, "late")


def server_stream(request, context):
    for at in range(int(request)):
        yield str(at).encode()


def client_stream(requests, context):
    return str(sum(len(request) for request in requests)).encode()


def both(requests, context):
    for request in requests:
        yield b"re: " + request


def slow(request, context):
    time.sleep(30)
    return b"too late"


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64), options=[("grpc.max_receive_message_length", -1)])
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
        "FailLate": grpc.unary_stream_rpc_method_handler(fail_late),
        "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
        "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
        "Both": grpc.stream_stream_rpc_method_handler(both),
        "Slow": grpc.unary_unary_rpc_method_handler(slow),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


def call(target):
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    channel = grpc.insecure_channel(target, options=options)
    limit = 20

    response, made = channel.unary_unary(METHODS + "Unary").with_call(b"hello", timeout=limit)
    initial = dict(made.initial_metadata()).get("x-initial")
    trailing = dict(made.trailing_metadata())
    print("unary", response.decode(), initial, trailing.get("x-trailing"), trailing.get("x-data-bin"), made.code().name)

    for name, what in [("Fail", channel.unary_unary(METHODS + "Fail")), ("Nowhere", channel.unary_unary(METHODS + "Nowhere"))]:
        try:
            what(b"", timeout=limit)
            print(name, "no error")
        except grpc.RpcError as error:
            print(name, error.code().name, error.details())

    received = []
    try:
        for message in channel.unary_stream(METHODS + "FailLate")(b"", timeout=limit):
            received.append(message)
    except grpc.RpcError as error:
        print("fail late", received, error.code().name, error.details())

    count = sum(1 for _ in channel.unary_stream(METHODS + "ServerStream")(b"5000", timeout=limit))
    print("server stream", count)

    pieces = (b"x" * 100_000 for _ in range(50))
    print("client stream", channel.stream_unary(METHODS + "ClientStream")(pieces, timeout=limit).decode())

    # Each message is sent only when the response to the one before has come.
    answered = threading.Semaphore(1)

    def in_turn():
        for at in range(20):
            answered.acquire()
            yield str(at).encode()

    count = 0
    for at, message in enumerate(channel.stream_stream(METHODS + "Both")(in_turn(), timeout=limit)):
        count += message == b"re: " + str(at).encode()
        answered.release()
    print("both", count)

    large = b"y" * 4_000_000
    print("large", channel.unary_unary(METHODS + "Unary")(large, timeout=limit) == large.upper())

    calls = [channel.unary_unary(METHODS + "Unary").future(b"a", timeout=limit) for _ in range(200)]
    print("at once", sum(call.result() == b"A" for call in calls))

    try:
        channel.unary_unary(METHODS + "Slow")(b"", timeout=0.5)
    except grpc.RpcError as error:
        print("deadline", error.code().name)
    print("behind it", channel.unary_unary(METHODS + "Unary")(b"b", timeout=limit).decode())


if sys.argv[1] == "server":
    serve()
else:
    call(sys.argv[2])
