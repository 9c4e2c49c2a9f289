"""Servers of our own that fall down and get up again."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from free_ports import free_port
from stores.mysql import server as mysql
from stores.postgres import server as postgres


class Server(Protocol):
    """`crash` ends it as a power cut would, `kill` all its processes by SIGKILL; `start` recovers it.

    `url` names an empty database. `environment` is added to that of its next start.
    """

    environment: dict[str, str]

    @property
    def url(self) -> str: ...

    @property
    def is_up(self) -> bool: ...

    def crash(self) -> None: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Postgres:
    def __init__(self, server: postgres.Server) -> None:
        self.server = server
        self.url = server.url
        self.environment = server.environment

    @property
    def is_up(self) -> bool:
        return self.server.is_up

    def crash(self) -> None:
        self.server.stop("immediate")

    def kill(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()


class Mysql:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.root = f"mysql://root@127.0.0.1:{self.port}"
        self.url = f"{self.root}/onbeat"
        self.process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def init(self) -> None:
        make = mysql.installed("mariadb-install-db", "mysql_install_db")
        subprocess.run(
            [make, "--no-defaults", f"--datadir={self.folder}/data", "--auth-root-authentication-method=normal",
             "--skip-test-db", "--user=root"],
            check=True, capture_output=True,
        )  # fmt: skip
        self.start()
        mysql.execute(self.root, "CREATE DATABASE onbeat")

    def start(self) -> None:
        self.process = subprocess.Popen(
            [mysql.installed("mariadbd", "mysqld"), "--no-defaults", "--user=root",
             f"--datadir={self.folder}/data", f"--socket={self.folder}/s", f"--port={self.port}",
             "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=32M", f"--tmpdir={self.folder}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **self.environment},
        )  # fmt: skip
        mysql.wait_for(self.root, self.process)

    def crash(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """Its one process; there is no other way to end it at once."""
        self.crash()


@contextlib.contextmanager
def private_server(kind: str, within: Path | None = None) -> Iterator[Server]:
    """Its files lie in `within`, where that is given."""
    if kind == "postgres":
        with postgres.private_server(within) as server:
            yield Postgres(server)
        return
    folder = Path(tempfile.mkdtemp(prefix="onbeat-mysql-", dir=within))
    mariadb = Mysql(folder)
    try:
        mariadb.init()
        yield mariadb
    finally:
        mariadb.crash()
        shutil.rmtree(folder, ignore_errors=True)
