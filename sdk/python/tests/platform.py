"""The platform's side of the contract, for tests: a server that takes reports, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

TOKEN = "of-a-pod"  # noqa: S105


class ReportServer:
    """Answers 202 to reports with the right token, and keeps them in a file."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "reports.jsonl"
        self.record.touch()
        self.token_file = folder / "token"
        self.token_file.write_text(TOKEN)
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        self._pid = os.fork()
        if self._pid == 0:
            _serve(listener, self.record)
        listener.close()

    def environment(self) -> dict[str, str]:
        """What a member is told."""
        return {"WARPYARD_REPORT_URL": self.url, "WARPYARD_REPORT_TOKEN_FILE": str(self.token_file)}

    def reports(self) -> list[dict[str, Any]]:
        """What was accepted, in order."""
        return [json.loads(line) for line in self.record.read_text().splitlines()]

    def close(self) -> None:
        """Ends the server."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _serve(listener: socket.socket, record: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_known = self.headers["Authorization"] == f"Bearer {TOKEN}"
            if is_known:
                with record.open("ab") as file:
                    file.write(body + b"\n")
            self.send_response(202 if is_known else 401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()
