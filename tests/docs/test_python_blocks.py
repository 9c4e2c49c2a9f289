"""Every Python block of the README, the first steps and the guides runs as it stands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conditions import eventually_here
from docs.pages import ROOT, TRIED, Block, blocks, name_of, with_language
from docs.services import BIN, environment, running, service

PAGES = with_language(TRIED, "python")
FILES = [block for page in PAGES for block in blocks(page, "python") if block.file]
PROGRAMS = [block for block in FILES if "beat.run()" in block.text]


def file_id(block: Block) -> str:
    return f"{name_of(block.page)}:{block.file}"


def saved(block: Block, folder: Path) -> str:
    assert block.file is not None
    (folder / block.file).write_text(block.text)
    return block.file


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "docs.run_page", str(page)],
        cwd=tmp_path,
        env=environment(tmp_path) | {"PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", FILES, ids=file_id)
def test_onbeat_up_runs_the_program(block: Block, tmp_path: Path) -> None:
    with service(tmp_path, saved(block, tmp_path)):
        pass


@pytest.mark.parametrize("block", PROGRAMS, ids=file_id)
def test_the_program_runs_by_itself(block: Block, tmp_path: Path) -> None:
    file = saved(block, tmp_path)
    with running([sys.executable, file], tmp_path):
        eventually_here(lambda: works(tmp_path), f"{file} works")


def works(folder: Path) -> bool:
    """Whether a worker has signed in to the program's store."""
    stores = [*folder.glob("*.db")]
    if not stores:
        return False
    command = [str(BIN / "onbeat"), "worker", "list", "--json", "--store", f"sqlite:///{stores[0]}"]
    request = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, timeout=30, check=False
    )
    return request.returncode == 0 and bool(json.loads(request.stdout)["workers"])


@pytest.mark.parametrize("page", with_language(TRIED, "py"), ids=name_of)
def test_python_of_other_libraries_can_be_read(page: Path) -> None:
    """What a page shows as the code before a move; those libraries need not be here."""
    for block in blocks(page, "py"):
        compile(block.text, str(page), "exec", dont_inherit=True)
