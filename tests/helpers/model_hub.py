"""A Hugging Face Hub on this machine, which answers what huggingface_hub requests to read and write a repository."""

import base64
import contextlib
import hashlib
import http.server
import json
import pathlib
import re
import threading
import urllib.parse

from huggingface_hub import constants, file_download, hf_api, utils

from albert_tf.weights.hugging_face import hub

TOKEN = "hf_token_of_the_test"


class ModelHub:
    """Repositories, and the requests that were sent for them."""

    def __init__(self):
        self.url = ""
        self.commits: dict[str, dict[str, dict[str, bytes]]] = {}  # by repository and commit, the files
        self.refs: dict[str, dict[str, str]] = {}
        self.private: set[str] = set()
        self.requests: list[str] = []
        self.cut_after: int | None = None  # bytes of a file after which a connection is closed

    def add(self, name: str, folder: pathlib.Path, revision: str = "main", **more: bytes) -> str:
        """Commits the files of a folder. Returns the commit."""
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return self.commit(name, {**files, **{key.replace("__", "."): value for key, value in more.items()}}, revision)

    def commit(self, name: str, files: dict[str, bytes], revision: str = "main") -> str:
        commit = hashlib.sha1(repr((name, revision, sorted(files.items()))).encode()).hexdigest()
        self.commits.setdefault(name, {})[commit] = files
        self.refs.setdefault(name, {})[revision] = commit
        return commit

    def files(self, name: str) -> dict[str, bytes]:
        return self.commits[name][self.refs[name]["main"]]

    def requests_for_files(self) -> list[str]:
        return [request for request in self.requests if "/resolve/" in request]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    @property
    def hub(self) -> ModelHub:
        return self.server.hub

    def do_HEAD(self):
        self._read()

    def do_GET(self):
        self._read()

    def do_POST(self):
        path = urllib.parse.unquote(self.path)
        self.hub.requests.append(f"POST {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._json(401, dict(error="Invalid credentials"))
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            self._json(200, dict(errors=[], warnings=[]))
        elif "/preupload/" in path:
            files = json.loads(body)["files"]
            self._json(200, dict(files=[dict(path=file["path"], uploadMode="regular", shouldIgnore=False)
                                        for file in files]))
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path):
            self._commit(match[1], [json.loads(line) for line in body.splitlines()])
        else:
            self._json(404, dict(error="no such request"))

    def _create(self, values):
        name = f"{values['organization']}/{values['name']}"
        if name in self.hub.commits:
            self._json(409, dict(error="exists", url=f"{self.hub.url}/{name}"))
            return
        self.hub.commit(name, {})
        if values.get("private") or values.get("visibility") == "private":  # the second one since version 1
            self.hub.private.add(name)
        self._json(200, dict(url=f"{self.hub.url}/{name}", name=name))

    def _commit(self, name, operations):
        files = {operation["value"]["path"]: base64.b64decode(operation["value"]["content"])
                 for operation in operations if operation["key"] == "file"}
        commit = self.hub.commit(name, {**self.hub.files(name), **files})
        self._json(200, dict(commitUrl=f"{self.hub.url}/{name}/commit/{commit}", commitOid=commit, pullRequestUrl=None))

    def _read(self):
        path = urllib.parse.unquote(self.path.partition("?")[0])
        self.hub.requests.append(f"{self.command} {path}")
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(?:revision|tree)/(.+))?", path):
            self._info(match[1], match[2] or "main", is_tree="/tree/" in path)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/(\w+)/(.+)", path):
            self._file(*match.groups())
        else:
            self._json(404, dict(error="no such request"))

    def _info(self, name, revision, is_tree):
        if name not in self.hub.commits or name in self.hub.private and not self.headers.get("Authorization"):
            self._json(401, dict(error="Repository not found"), {"X-Error-Code": "RepoNotFound"})
            return
        commit = self.hub.refs[name].get(revision, revision)
        if commit not in self.hub.commits[name]:
            self._json(404, dict(error="Invalid rev id"), {"X-Error-Code": "RevisionNotFound"})
            return
        files = self.hub.commits[name][commit]
        if is_tree:
            self._json(200, [dict(type="file", path=path, oid=hashlib.sha1(content).hexdigest(), size=len(content))
                             for path, content in files.items()], {"X-Repo-Commit": commit})
            return
        self._json(200, dict(id=name, modelId=name, sha=commit, private=name in self.hub.private, tags=[], downloads=0,
                             siblings=[dict(rfilename=path) for path in files]))

    def _file(self, name, commit, path):
        content = self.hub.commits[name][commit][path]
        start = int(re.match(r"bytes=(\d+)-", self.headers.get("Range") or "bytes=0-")[1])
        self.send_response(206 if start else 200)
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes",
                   "Content-Length": str(len(content) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        for header in headers.items():
            self.send_header(*header)
        self.end_headers()
        if self.command == "GET":
            cut = self.hub.cut_after
            self.wfile.write(content[start:] if cut is None else content[start : start + cut])
            if cut is not None and start + cut < len(content):
                self.close_connection = True

    def _json(self, status, values, headers=None):
        body = json.dumps(values).encode()
        self.send_response(status)
        for header in {**(headers or {}), "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(*header)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextlib.contextmanager
def running_hub():
    """Yields a ModelHub that answers on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.hub = ModelHub()
        server.hub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs=dict(poll_interval=0.05))
        thread.start()
        try:
            yield server.hub
        finally:
            server.shutdown()
            thread.join()


def use_hub(monkeypatch, model_hub: ModelHub, cache: pathlib.Path) -> None:
    """Lets huggingface_hub use a hub and an empty cache, in this process, which has read its environment already."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(constants, "ENDPOINT", model_hub.url)
    for module in (constants, file_download):  # since version 1, the second one has no name of its own
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE",
                            model_hub.url + "/{repo_id}/resolve/{revision}/{filename}", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(hf_api.api, "endpoint", model_hub.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    set_offline(monkeypatch, False)
    forget()


def set_offline(monkeypatch, is_offline: bool) -> None:
    """Sets HF_HUB_OFFLINE in this process, whose connections have another value already."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", is_offline)
    getattr(utils, "reset_sessions" if hasattr(utils, "reset_sessions") else "close_session")()


def forget() -> None:
    """Forgets what this process has opened, as a new process has."""
    hub._opened.clear()
