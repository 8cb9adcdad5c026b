"""The Hugging Face Hub as far as uploading a dataset needs it: a server that keeps what is committed."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Hub:
    """A server that answers as the Hub does and remembers.

    Attributes
    ----------
    endpoint : str
        Its address, for ``HF_ENDPOINT``.
    asked : list of (str, str)
        Method and path of each request.
    made : list of dict
        What repositories were to be made.
    files : dict of str to bytes
        What was committed, by its path in the repository.
    refuses : int
        A status with which every request is answered; 0 for none.
    """

    def __init__(self, token: str):
        self.token, self.refuses = token, 0
        self.asked: list[tuple[str, str]] = []
        self.made: list[dict] = []
        self.files: dict[str, bytes] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict | list]:
        """Return status and JSON of an answer."""
        parts = path.strip("/").split("/")
        if self.refuses:
            return self.refuses, {"error": "refused by the test"}
        if path == "/api/repos/create":
            self.made.append(json.loads(body))
            name = f"{self.made[-1].get('organization', 'tester')}/{self.made[-1]['name']}"
            return 200, {"url": f"{self.endpoint}/datasets/{name}", "name": name}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path == "/api/whoami-v2":
            return 200, {"name": "tester", "type": "user", "auth": {"accessToken": {"role": "write"}}}
        if "preupload" in parts:
            files = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                for one in json.loads(body)["files"]
            ]
            return 200, {"files": files}
        if "commit" in parts and method == "POST":
            for line in body.decode().splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            url = f"{self.endpoint}/datasets/tester/run/commit/{'a' * 40}"
            return 200, {"success": True, "commitOid": "a" * 40, "commitUrl": url, "hookOutput": ""}
        if "tree" in parts:
            return 200, []
        if parts[:2] == ["api", "datasets"] and method == "GET":
            return 200, {"id": "/".join(parts[2:4]), "sha": "0" * 40, "private": True, "siblings": []}
        return 404, {"error": f"the test does not know {method} {path}"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                    body = b""
                    while size := int(self.rfile.readline().strip() or b"0", 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = urlsplit(self.path).path
                hub.asked.append((self.command, path))
                known = self.headers.get("Authorization") == f"Bearer {hub.token}"
                status, found = (
                    hub.answer(self.command, path, body) if known else (401, {"error": "no token"})
                )
                data = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = _any

            def log_message(self, *_args) -> None:
                """Say nothing."""

        return Handler
