"""What the guides of frameworks show is what their examples are, and runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT, blocks

GUIDES = ROOT / "docs" / "guides"
EXAMPLES = ROOT / "examples"


def test_every_block_about_django_is_a_part_of_its_example() -> None:
    sources = [file.read_text() for file in (EXAMPLES / "django").rglob("*.py")]
    for block in blocks(GUIDES / "django.md", "py"):
        assert any(block.text in text for text in sources), block.text


@pytest.mark.parametrize("name", ["fastapi", "flask"])
def test_the_program_of_the_guide_is_the_example(name: str) -> None:
    """But for what a reader would not set by the environment."""
    example = (EXAMPLES / name / "shop.py").read_text()
    shown = next(blocks(GUIDES / f"{name}.md", "python")).text
    plain = example.replace(
        'os.environ.get("STORE", "sqlite:///onbeat.db")', '"sqlite:///onbeat.db"'
    )
    plain = plain.replace(
        'os.environ.get("KEY", "admin-key-of-the-example-01")', '"admin-key-of-the-example-01"'
    )
    assert shown.strip() in plain


def test_the_tests_of_the_guide_pass(tmp_path: Path) -> None:
    page = GUIDES / "test-your-handlers.md"
    (ini,) = blocks(page, "ini")
    python = {block.text.partition("\n")[0]: block.text for block in blocks(page, "python")}
    (tmp_path / "pytest.ini").write_text(f"{ini.text}asyncio_mode = auto\n")
    (tmp_path / "shop.py").write_text(python["# shop.py"])
    (tmp_path / "test_shop.py").write_text(python["# tests/test_shop.py"])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "onbeat.ext.pytest", "-p", "pytest_asyncio.plugin",
         "-o", "asyncio_default_fixture_loop_scope=function"],
        cwd=tmp_path,
        env=os.environ
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert "3 passed" in done.stdout, done.stdout + done.stderr
