#!/usr/bin/env python3
"""Counts decisions a second, and the processor time of each, of lockage-server beside throttlecrab-server.

    server/tests/others/speed.py LOCKAGE_SERVER [--peer THROTTLECRAB_SERVER] [--redis REDIS_SERVER] [--seconds N]

The peer is `cargo install throttlecrab-server`. The load is of redis-benchmark, wrk and h2load, on the same processors as the
servers. Rounds alternate, and the best of three counts. It prints a table in Markdown.
"""

import argparse
import os
import re
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

RULES = """
[[rules]]
name = "users"
when = { domain = "shop", user = true }
id = "user:{user}"
limit = "token-bucket 1000000/s burst 1000000"

[[rules]]
name = "routes"
when = { domain = "shop", route = true }
id = "route:{route}"
limit = "token-bucket 1000000/s burst 1000000"
"""

# Each request for one of 100,000 keys, and admitted.
WRK = """
local number = 0
request = function()
  number = (number * 1103515245 + 12345) %% 2147483648
  return wrk.format("POST", "%s", {["content-type"] = "application/json"}, string.format([[%s]], number %% 100000))
end
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until_open(port):
    for _ in range(1000):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise SystemExit(f"port {port} is not open")


def field(number, payload):
    return bytes([number << 3 | 2, len(payload)]) + payload


def envoy_request():
    """Returns a gRPC message with two descriptors."""
    entry = lambda key, value: field(1, field(1, key) + field(2, value))
    message = field(1, b"shop") + field(2, entry(b"user", b"42")) + field(2, entry(b"route", b"/cart"))
    return b"\0" + struct.pack(">I", len(message)) + message


class Server:
    def __init__(self, name, command, ports):
        self.name, self.ports = name, ports
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for port in ports.values():
            until_open(port)

    def processor_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lockage(program, folder, store, name):
    rules = folder / "rules.toml"
    rules.write_text(RULES)
    ports = {port: free_port() for port in ("grpc", "http", "resp")}
    words = [word for port, number in ports.items() for word in (f"--{port}", f"127.0.0.1:{number}")]
    return Server(name, [program, "--rules", rules, "--store", store, "--admin", "none", *words], ports)


def throttlecrab(program):
    ports = {"http": free_port(), "resp": free_port()}
    words = ["--http", "--http-host", "127.0.0.1", "--http-port", str(ports["http"]),
             "--redis", "--redis-host", "127.0.0.1", "--redis-port", str(ports["resp"]), "--log-level", "error"]
    return Server("throttlecrab-server", [program, *words], ports)


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def by_resp(server, seconds, pipeline):
    command = "THROTTLE" if "crab" in server.name else "CL.THROTTLE"
    count = int(seconds * (40_000 if pipeline == 1 else 150_000))
    out = run(["redis-benchmark", "-p", str(server.ports["resp"]), "-n", str(count), "-c", "50", "-P", str(pipeline),
               "-r", "100000", "--csv", command, "user:__rand_int__", "999999", "1000000", "1"])
    values = out.strip().split("\n")[-1].replace('"', "").split(",")
    return count, float(values[1]), f"{float(values[4]):.2f}ms", f"{float(values[6]):.2f}ms"


def by_http(server, seconds, folder):
    if "crab" in server.name:
        path, body = "/throttle", '{"key":"user:%d","max_burst":999999,"count_per_period":1000000,"period":1,"quantity":1}'
    else:
        path, body = "/v1/decide", '{"id":"user:%d","limit":"token-bucket 1000000/s burst 1000000"}'
    script = folder / "load.lua"
    script.write_text(WRK % (path, body))
    out = run(["wrk", "-t1", "-c50", f"-d{seconds}s", "--latency", "-s", script, f"http://127.0.0.1:{server.ports['http']}"])
    assert "Non-2xx" not in out, out
    of = lambda pattern: re.search(pattern, out).group(1)
    return int(of(r"(\d+) requests in")), float(of(r"Requests/sec:\s+([\d.]+)")), of(r"\n\s+50%\s+(\S+)"), of(r"\n\s+99%\s+(\S+)")


def by_grpc(server, seconds, folder):
    data = folder / "request"
    data.write_bytes(envoy_request())
    out = run(["h2load", "-t1", "-c10", "-m10", f"-D{seconds}", "--warm-up-time=0", "-d", data, "-H", "content-type: application/grpc",
               "-H", "te: trailers", f"http://127.0.0.1:{server.ports['grpc']}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"])
    of = lambda pattern: re.search(pattern, out).group(1)
    done = int(of(r"(\d+) succeeded"))
    assert int(of(r"(\d+) failed")) == 0 and done > 0, out
    return done, float(of(r"([\d.]+) req/s")), "", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--peer")
    parser.add_argument("--redis", default="redis-server")
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder, port = Path(folder), free_port()
        redis = subprocess.Popen([options.redis, "--port", str(port), "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
        servers = []
        try:
            until_open(port)
            servers.append(lockage(options.program, folder, "memory", "lockage-server"))
            servers.append(lockage(options.program, folder, f"redis://127.0.0.1:{port}", "lockage-server on Redis"))
            if options.peer:
                servers.append(throttlecrab(options.peer))
            loads = {"RESP": lambda server: by_resp(server, options.seconds, 1),
                     "RESP, 16 at once": lambda server: by_resp(server, options.seconds, 16),
                     "HTTP": lambda server: by_http(server, options.seconds, folder),
                     "RLS, two descriptors": lambda server: by_grpc(server, options.seconds, folder)}
            print("| protocol | server | decisions a second | processor us each | p50 | p99 |\n|---|---|---:|---:|---:|---:|")
            for protocol, load in loads.items():
                best = {}
                for _ in range(3):
                    for server in servers:
                        if "RLS" in protocol and "crab" in server.name:
                            continue
                        before = server.processor_seconds()
                        count, rate, *times = load(server)
                        each = (server.processor_seconds() - before) / count * 1e6
                        if server.name not in best or best[server.name][0] < rate:
                            best[server.name] = (rate, each, times)
                for name, (rate, each, (p50, p99)) in best.items():
                    print(f"| {protocol} | {name} | {rate:,.0f} | {each:.1f} | {p50} | {p99} |", flush=True)
        finally:
            for process in [redis, *(server.process for server in servers)]:
                process.kill()


if __name__ == "__main__":
    main()
