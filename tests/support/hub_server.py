"""A server that answers as the Hugging Face Hub answers its client: repositories in memory.

Runs by itself in a test; the real `huggingface_hub` of another process talks to it (HF_ENDPOINT).
It speaks what that client asks for when a repository is made, listed, pushed to (Git and LFS files)
and fetched from. Private repositories are shown to those alone who come with the token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_" + "t0kenOfTheTests" * 3
API = re.compile(
    r"/api/(model|dataset)s/([^/]+/[^/]+?)(?:/(preupload|commit|revision|tree))?(/.*)?"
)
RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
BATCH = re.compile(r"/(datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch")
MAIN = "main"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Repo:
    """Commits, newest last: (40 hexadecimal digits, path -> contents)."""

    private: bool = False
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    odd: dict[str, str] = field(default_factory=dict)
    """Path -> what the tree calls it, of entries that are no files."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Path -> how many bytes the tree says that a file has, where that is not true."""

    def commit(self, files: dict[str, bytes]) -> str:
        name = hashlib.sha1(repr((len(self.commits), sorted(files))).encode()).hexdigest()
        self.commits.append((name, files))
        return name

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        if revision == MAIN:
            return self.commits[-1]
        return next((one for one in self.commits if one[0] == revision), None)


class Hub:
    """The server and what it holds.

    Attributes:
        url: for HF_ENDPOINT.
        repos: (kind, owner/name) -> repository.
        asked: (method, path) of each request.
        large: LFS objects that came, by SHA-256.
    """

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], Repo] = {}
        self.asked: list[tuple[str, str]] = []
        self.large: dict[str, bytes] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                path = unquote(urlsplit(self.path).path)
                outer.asked.append((self.command, path))
                knows = self.headers.get("Authorization") == f"Bearer {TOKEN}"
                status, headers, content = outer.reply(self.command, path, body, knows)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

        for method in ("GET", "POST", "PUT", "HEAD"):
            setattr(Handler, f"do_{method}", Handler.answer)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def holds(self, name: str, files: dict[str, bytes], kind: str = "model") -> Repo:
        """Make a public repository with these files."""
        repo = self.repos[kind, name] = Repo()
        repo.commit(files)
        return repo

    def files(self, name: str, kind: str = "model") -> dict[str, bytes]:
        """Of the newest commit, without what the Hub adds itself."""
        _, held = self.repos[kind, name].commits[-1]
        return {path: data for path, data in held.items() if path != ".gitattributes"}

    # -- answers -----------------------------------------------------------------------------------
    def reply(self, method: str, path: str, body: bytes, knows: bool) -> Any:
        if path == "/api/repos/create":
            return self.create(json.loads(body), knows)
        if path == "/api/validate-yaml":
            return as_json({"errors": [], "warnings": []})
        if path == "/api/whoami-v2":
            return as_json({"name": "me", "type": "user"}) if knows else refused(401)
        if path.startswith("/upload/"):
            self.large[path.rpartition("/")[2]] = body
            return as_json({})
        if found := BATCH.fullmatch(path):
            return self.batch(json.loads(body), knows)
        for pattern in (API, RESOLVE):
            if found := pattern.fullmatch(path):
                api = pattern is API
                kind = found[1] if api else ("dataset" if found[1] else "model")
                repo = self.repos.get((kind, found[2]))
                if repo is None or (repo.private and not knows):
                    return refused(401, "RepoNotFound")
                if api:
                    rest = (found[4] or "/").removeprefix("/")
                    return self.of_repo(repo, found[2], found[3], rest, body, knows)
                return resolved(repo, found[3], found[4])
        return refused(404)

    def create(self, asked: dict[str, Any], knows: bool) -> Any:
        if not knows:
            return refused(401)
        name = f"{asked['organization']}/{asked['name']}"
        kind = asked.get("type") or "model"
        if (kind, name) in self.repos:
            return as_json({"error": "it is there", "url": f"{self.url}/{name}"}, 409)
        repo = self.repos[kind, name] = Repo(private=asked.get("visibility") == "private")
        repo.commit({".gitattributes": b"*.safetensors filter=lfs\n"})
        return as_json({"url": f"{self.url}/{name}", "name": name})

    def batch(self, asked: dict[str, Any], knows: bool) -> Any:
        if not knows:
            return refused(401)
        objects = [
            {**one, "actions": {"upload": {"href": f"{self.url}/upload/{one['oid']}"}}}
            for one in asked["objects"]
        ]
        return as_json({"transfer": "basic", "objects": objects})

    def of_repo(
        self, repo: Repo, name: str, what: str | None, rest: str, body: bytes, knows: bool
    ) -> Any:
        if what in ("preupload", "commit") and not knows:
            return refused(401)
        if what == "preupload":
            files = json.loads(body)["files"]
            return as_json({"files": [{**upload_of(one["path"])} for one in files]})
        if what == "commit":
            commit = repo.commit(self.changed(repo, body))
            url = f"{self.url}/{name}/commit/{commit}"
            return as_json({"commitUrl": url, "commitOid": commit, "success": True})
        found = repo.at(rest.split("/")[0] or MAIN)
        if found is None:
            return refused(404, "RevisionNotFound")
        commit, files = found
        if what == "tree":
            return as_json(
                [
                    *(
                        {**one, "size": repo.sizes[one["path"]]}
                        if one["path"] in repo.sizes
                        else one
                        for one in entries(files)
                    ),
                    *({"type": t, "path": p, "oid": "0" * 40} for p, t in repo.odd.items()),
                ]
            )
        siblings = [{"rfilename": path} for path in files]
        about = {"id": name, "sha": commit, "private": repo.private, "siblings": siblings}
        return as_json({**about, "tags": [], "downloads": 0, "likes": 0})

    def changed(self, repo: Repo, body: bytes) -> dict[str, bytes]:
        files = dict(repo.commits[-1][1])
        for line in body.splitlines():
            part = json.loads(line)
            value = part["value"]
            if part["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif part["key"] == "lfsFile":
                files[value["path"]] = self.large[value["oid"]]
            elif part["key"] == "deletedFile":
                del files[value["path"]]
        return files


def upload_of(path: str) -> dict[str, Any]:
    mode = "lfs" if path.endswith((".safetensors", ".parquet")) else "regular"
    return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": None}


def entries(files: dict[str, bytes]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path, data in files.items():
        about: dict[str, Any] = {"type": "file", "path": path, "size": len(data)}
        about["oid"] = hashlib.sha1(data).hexdigest()
        if upload_of(path)["uploadMode"] == "lfs":
            about["lfs"] = {"oid": digest(data), "size": len(data), "pointerSize": 130}
        found.append(about)
    folders = {path.rpartition("/")[0] for path in files if "/" in path}
    return found + [{"type": "directory", "path": one, "oid": "0" * 40} for one in folders]


def resolved(repo: Repo, revision: str, path: str) -> Any:
    found = repo.at(revision)
    if found is None:
        return refused(404, "RevisionNotFound")
    commit, files = found
    if path not in files:
        return refused(404, "EntryNotFound")
    headers = {"ETag": f'"{digest(files[path])}"', "X-Repo-Commit": commit}
    return 200, {**headers, "X-Linked-Size": str(len(files[path]))}, files[path]


def as_json(value: Any, status: int = 200) -> Any:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


def refused(status: int, code: str = "") -> Any:
    headers = {"X-Error-Code": code, "X-Error-Message": code or "no"} if code else {}
    return status, headers, json.dumps({"error": code or "no"}).encode()


@contextmanager
def hub() -> Iterator[Hub]:
    one = Hub()
    try:
        yield one
    finally:
        one.http.shutdown()
        one.http.server_close()
