"""Children of tests with mounts of their own."""

from concurrent import futures

import grpc

from tests.namespaces import with_own_mounts


def test_a_process_that_uses_grpc_can_have_a_child_with_own_mounts() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        grpc.channel_ready_future(channel).result(30)
        with_own_mounts(lambda: None)
    server.stop(0).wait()
