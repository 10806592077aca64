"""A throw-away PostgreSQL server for the tests: real binaries, a private folder, a free port, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

SERVERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
)
"""Where distributions put the server's binaries, which are rarely on the PATH."""


def find_binaries() -> Path | None:
    """The folder with initdb and pg_ctl, or None when PostgreSQL is not installed."""
    on_path = shutil.which("initdb")
    if on_path is not None and shutil.which("pg_ctl") is not None:
        return Path(on_path).resolve().parent
    found = [
        folder for pattern in SERVERS for folder in Path("/").glob(pattern.lstrip("/")) if (folder / "initdb").exists()
    ]
    return max(
        found,
        key=lambda folder: [int(n) for n in "".join(c if c.isdigit() else " " for c in str(folder)).split()],
        default=None,
    )


def install_binaries() -> Path | None:
    """Installs Debian's package; only tried by root, in continuous integration."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-qq", "-y", "--no-install-recommends", "postgresql"],
    ):
        subprocess.run(
            command,
            check=False,
            timeout=600,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
    return find_binaries()


class PostgresServer:
    """One server in a temporary folder; `url(name)` makes a fresh database in it."""

    def __init__(self, binaries: Path) -> None:
        self.binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="regretless-pg-"))
        self.port = free_port()
        self._user: dict[str, object] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            account = _unprivileged()
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._run(
            "initdb", "-D", str(self.folder / "data"), "-U", "tester", "--auth=trust", "--encoding=UTF8", "--no-sync"
        )
        self.start()

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        options += " -c fsync=off -c max_connections=200"
        self._run(
            "pg_ctl",
            "-D",
            str(self.folder / "data"),
            "-l",
            str(self.folder / "log"),
            "-w",
            "-t",
            "60",
            "-o",
            options,
            "start",
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stops the server; "immediate" drops every connection at once, as a crash does."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-t", "60", "-m", mode, "stop")

    def url(self, name: str) -> str:
        """The storage URL of a new, empty database."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "tester", name)
        return f"postgresql+psycopg://tester@127.0.0.1:{self.port}/{name}"

    def limited(self, url: str, connections: int) -> str:
        """The URL of the same database for a role that may have so many connections."""
        name = url.rpartition("/")[2]
        role = f"role_{name}"
        grant = f"grant all on schema public to {role}"
        for words in (f"create role {role} login connection limit {connections}", grant):
            self._run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "tester", "-d", name, "-qc", words)
        return url.replace("tester@", f"{role}@")

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        output = (
            self.folder / "output"
        )  # a file, because the server keeps what it inherits open and a pipe would never end
        with open(output, "wb") as file:
            done = subprocess.run(  # type: ignore[call-overload]
                [str(self.binaries / program), *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=120,
                **self._user,
            )
        if done.returncode:
            logs = [path.read_text()[-2000:] for path in (output, self.folder / "log") if path.exists()]
            raise RuntimeError(f"{program} failed: {' '.join(logs)}")


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
