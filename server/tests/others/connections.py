#!/usr/bin/env python3
"""Opens idle connections to lockage-server, and prints its memory, and how long requests beside them take.

    server/tests/others/connections.py LOCKAGE_SERVER [--count N]
"""

import argparse
import json
import resource
import socket
import tempfile
import time
import urllib.request
from pathlib import Path

import speed


def megabytes(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def decide(port):
    body = json.dumps({"id": "user:42", "limit": "token-bucket 1000000/s burst 1000000"}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/decide", body, {"content-type": "application/json"})
    assert urllib.request.urlopen(request, timeout=10).status == 200


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=9_900)
    options = parser.parse_args()
    files = 2 * options.count + 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    with tempfile.TemporaryDirectory() as folder:
        server = speed.lockage(options.program, Path(folder), "memory", "lockage-server")
        try:
            print(f"no connections: {megabytes(server.process)} MiB")
            idle = []
            for protocol in ("http", "resp"):
                port = server.ports[protocol]
                idle += [socket.create_connection(("127.0.0.1", port)) for _ in range(options.count)]
                begin = time.monotonic()
                for _ in range(200):
                    decide(server.ports["http"])
                took = time.monotonic() - begin
                print(f"and {options.count} by {protocol}: {megabytes(server.process)} MiB, 200 requests in {took:.2f} s")
        finally:
            server.process.kill()


main()
