#!/usr/bin/env python3
"""Runs the scripts on a real server as the vectors say, and compares what comes of it.

usage: run.py [HOST:PORT]      default 127.0.0.1:6379; Redis 7.0 or later, or Valkey

It needs scripts/ and clock.lua beside it. It writes and deletes only keys that begin with lockage:{vector}. It exits
with 1 where anything differs, each with its file, line and field.
"""

import json
import pathlib
import socket
import sys

FOLDER = pathlib.Path(__file__).parent
# The time that expiries count from: see clock.lua.
START_MS = 4102444800000


class Server:
    """A connection that speaks RESP2."""

    def __init__(self, host, port):
        self.stream = socket.create_connection((host, port), timeout=10).makefile("rwb")

    def send(self, *words):
        """Sends a command and returns its reply: an error of a script as {"error": its first word}."""
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
        self.stream.write(b"*%d\r\n" % len(words) + b"".join(parts))
        self.stream.flush()
        reply = self.reply()
        if isinstance(reply, dict) and words[0] != b"EVALSHA":
            sys.exit(f"run.py: {words[0].decode()}: the server replies {reply['error']}")
        return reply

    def reply(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            return {"error": text.decode().split(" ")[0]}
        if kind == b":":
            return int(text)
        if kind == b"$":
            return None if int(text) < 0 else self.stream.read(int(text) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(text))]
        return text

    def put(self, key, state):
        """Makes the key hold this, or nothing."""
        self.send("DEL", key)
        if state is None:
            return
        value, expires_at_ms = state["value"], START_MS + state["expires_in_ms"]
        if isinstance(value, list):
            self.send("RPUSH", key, *value)
            self.send("PEXPIREAT", key, expires_at_ms)
        else:
            self.send("SET", key, value, "PXAT", expires_at_ms)

    def state(self, key):
        """What the key holds, and when it expires."""
        kind = self.send("TYPE", key)
        if kind == b"none":
            return None
        value = self.send("LRANGE", key, 0, -1) if kind == b"list" else self.send("GET", key)
        return {"value": value, "expires_in_ms": self.send("PEXPIRETIME", key) - START_MS}


def in_bytes(value):
    """What stands for it in a vector, where each string is text or {"hex": ...}."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [in_bytes(element) for element in value]
    if isinstance(value, dict) and "hex" in value:
        return bytes.fromhex(value["hex"])
    if isinstance(value, dict) and "value" in value:
        return {**value, "value": in_bytes(value["value"])}
    return value


def differences(server, digest, vector):
    """Runs a vector, and returns of each field that differs its name, what is there and what should be."""
    keys, state = vector["keys"], in_bytes(vector["state"])
    for key, before in zip(keys, state):
        server.put(key, before)
    arguments = in_bytes(vector["arguments"])
    reply = server.send("EVALSHA", digest, len(keys), *keys, *arguments, vector["now_us"])
    seen = {"reply": reply, "next_state": [server.state(key) for key in keys]}
    server.send("DEL", *keys)
    expected = {field: in_bytes(vector[field]) for field in seen}
    return [(field, seen[field], expected[field]) for field in seen if seen[field] != expected[field]]


def main(arguments):
    host, colon, port = (arguments or ["127.0.0.1:6379"])[0].rpartition(":")
    if len(arguments) > 1 or not (host and colon and port.isdigit()):
        print("usage: run.py [HOST:PORT]", file=sys.stderr)
        return 2
    server, digests, count, differ = Server(host, int(port)), {}, 0, False
    clock = (FOLDER / "clock.lua").read_text()
    for path in sorted(FOLDER.glob("*.json")):
        # One vector a line, behind a bracket of its own.
        for line, vector in enumerate(json.loads(path.read_text()), 2):
            script = vector["script"]
            if script not in digests:
                source = (FOLDER / "scripts" / f"{script}.lua").read_text()
                digests[script] = server.send("SCRIPT", "LOAD", clock + source)
            for field, seen, expected in differences(server, digests[script], vector):
                print(f"{path.name}:{line}: {field} of {script}: {seen}, and not {expected}")
                differ = True
            count += 1
    if not differ:
        print(f"{count} vectors of {len(digests)} scripts hold")
    return int(differ)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        sys.exit(f"run.py: {error}")
