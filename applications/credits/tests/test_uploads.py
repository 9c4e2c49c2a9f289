"""Files of uploads: which go, which stay, and what a crash leaves."""

import html
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from credits.app import SWEEP, build
from credits.uploads.folder import remove, remove_empty_folders, store
from credits.uploads.removals import forget_block
from credits.uploads.wanted import collect
from world import World, stamp

NOON = datetime(2025, 11, 20, 12, tzinfo=UTC)
MIDNIGHT = datetime(2025, 11, 21, tzinfo=UTC)
OLD = MIDNIGHT - timedelta(days=3)
DAY = "2025/11/18"


def put_file(world: World, path: str, at: datetime = OLD) -> Path:
    file = world.config.uploads / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("picture")
    os.utime(file, (at.timestamp(), at.timestamp()))
    return file


def block(world: World, id: str, *urls: str) -> None:
    data = json.dumps({"images": [{"url": url} for url in urls]})
    world.run("INSERT INTO blocks (id, data) VALUES (?, ?)", id, data)


def upload(
    world: World, id: str, url: str, block: str | None, *variants: str, at: datetime = OLD
) -> None:
    world.run(
        "INSERT INTO uploads (id, original_url, timestamp, block_id, type)"
        " VALUES (?, ?, ?, ?, 'image')",
        id,
        url,
        stamp(at),
        block,
    )
    for variant in variants:
        world.run("INSERT INTO upload_variants (upload_id, url) VALUES (?, ?)", id, variant)


def local(path: str) -> str:
    return f"/static/uploads/{path}"


def files(world: World) -> list[str]:
    root = world.config.uploads
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def records(world: World) -> list[str]:
    return [id for (id,) in world.rows("SELECT id FROM uploads ORDER BY id")]


def noted(world: World) -> list[str]:
    return [path for (path,) in world.rows("SELECT path FROM upload_removals ORDER BY path")]


def swept(world: World, at: datetime = MIDNIGHT, state: str = "succeeded") -> str:
    """Let the schedule run once; what it says of itself, or its error."""
    program = build(world.config)
    with program.beat.testing(at=at - timedelta(hours=12)) as trial:
        trial.drain()
        trial.advance_to(at)
        trial.assert_ran(SWEEP, times=1)
        (run,) = trial.ran_of(SWEEP)
        assert run.job.state == state, run.outcome
        info = program.beat.jobs.get(run.job.id)
    return info.error or json.dumps(info.result, separators=(",", ":"))


def test_s5_a12_what_no_block_wants_goes_with_its_record(world: World) -> None:
    put_file(world, f"{DAY}/first.png")
    put_file(world, f"{DAY}/second.png")
    block(world, "b", local(f"{DAY}/first.png"))
    upload(world, "first", local(f"{DAY}/first.png"), "b")
    upload(world, "second", local(f"{DAY}/second.png"), "deleted")
    assert '"removed":1' in swept(world)
    assert files(world) == [f"{DAY}/first.png"]
    assert records(world) == ["first"]
    assert noted(world) == []


def test_s5_a13_an_address_of_another_host_keeps_no_file_and_removes_none(world: World) -> None:
    cdn = "https://cdn.example.com/static/uploads/"
    put_file(world, "2025/11/18/same-filename.png")
    put_file(world, f"{DAY}/kept.png")
    block(world, "b", f"{cdn}2025/11/18/same-filename.png", local(f"{DAY}/kept.png"))
    upload(world, "elsewhere", f"{cdn}{DAY}/kept.png", "deleted")
    swept(world)
    assert files(world) == [f"{DAY}/kept.png"]
    assert records(world) == []


def test_a_file_of_three_blocks_stays_until_the_last_is_gone(world: World) -> None:
    put_file(world, f"{DAY}/shared.png")
    for id in ("a", "b", "c"):
        block(world, id, local(f"{DAY}/shared.png"))
    for id in ("a", "b"):
        world.run("DELETE FROM blocks WHERE id = ?", id)
        swept(world)
        assert files(world) == [f"{DAY}/shared.png"]
    world.run("DELETE FROM blocks")
    swept(world)
    assert files(world) == []


def test_s5_d26_names_that_html_quotes_keep_their_files(world: World) -> None:
    """Also where few files are noted, and blocks are looked for by their names."""
    names = ["a&b.png", "it's.png", "c,d.png", "e(1).png", 'q".png']
    for number, name in enumerate(names):
        path = f"{DAY}/{name}"
        put_file(world, path)
        written = html.escape(name) if number % 2 else quote(name)
        data = json.dumps({"html": f'<img src="{local(f"{DAY}/{written}")}">'})
        world.run("INSERT INTO blocks (id, data) VALUES (?, ?)", f"left{number}", data)
        block(world, f"gone{number}", local(path))
        upload(world, f"u{number}", local(path), f"gone{number}")
    program = build(world.config)
    with program.beat.testing(at=NOON) as trial:
        for number in range(len(names)):
            world.finish(program.delete_block(f"gone{number}", NOON + timedelta(minutes=number)))
            trial.advance("1m")
        trial.assert_ran("credits.remove_noted_uploads", times=len(names))
    swept(world)
    assert files(world) == sorted(f"{DAY}/{name}" for name in names)


def test_data_that_the_game_has_stored_as_bytes_is_read_too(sqlite: World) -> None:
    put_file(sqlite, f"{DAY}/a.png")
    data = json.dumps({"url": local(f"{DAY}/a.png")}).encode()
    sqlite.run("INSERT INTO blocks (id, data) VALUES ('b', ?)", data)
    swept(sqlite)
    assert files(sqlite) == [f"{DAY}/a.png"]


def test_files_of_any_ending_go(world: World) -> None:
    put_file(world, f"{DAY}/a.JPG")
    put_file(world, f"{DAY}/b.jpeg")
    put_file(world, f"{DAY}/ünï (1) %_\\.png")
    swept(world)
    assert files(world) == []


def test_there_may_be_no_folder_and_no_file(world: World) -> None:
    assert '"files":0' in swept(world)
    world.config.uploads.mkdir(parents=True)
    assert '"files":0' in swept(world)
    assert world.config.uploads.is_dir()


def test_s5_d21_a_crash_between_record_and_file_is_made_up(world: World) -> None:
    """The transaction has noted the file; the process died before it was removed."""
    put_file(world, f"{DAY}/a.png")
    world.run("INSERT INTO upload_removals VALUES (?, ?)", f"{DAY}/a.png", stamp(OLD))
    swept(world)
    assert (files(world), noted(world)) == ([], [])


def test_s5_d22_the_host_of_an_address_decides(world: World) -> None:
    put_file(world, f"{DAY}/a.png")
    upload(world, "mine", local(f"{DAY}/a.png"), None)
    upload(world, "orphan", f"https://evil.example{local(f'{DAY}/a.png')}", "deleted")
    swept(world)
    assert (files(world), records(world)) == ([f"{DAY}/a.png"], ["mine"])


def test_s5_d23_a_file_of_a_duplicated_block_stays(world: World) -> None:
    put_file(world, f"{DAY}/a.png")
    block(world, "copy", local(f"{DAY}/a.png"))
    upload(world, "original", local(f"{DAY}/a.png"), "deleted")
    swept(world)
    assert (files(world), records(world)) == ([f"{DAY}/a.png"], [])


@pytest.mark.parametrize(
    "path", [f"{DAY}/../../../../secret.txt", "%2e%2e/%2e%2e/secret.txt", f"{DAY}/a/secret.txt"]
)
def test_s5_36_an_address_of_another_form_is_left_alone(world: World, path: str) -> None:
    secret = world.config.uploads.parent.parent / "secret.txt"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("not an upload")
    os.utime(secret, (OLD.timestamp(), OLD.timestamp()))
    upload(world, "odd", local(path), "deleted")
    assert '"odd":1' in swept(world)
    assert (secret.exists(), records(world)) == (True, ["odd"])


def test_s5_d24_a_link_leads_nowhere(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.png").write_text("not an upload")
    os.utime(outside / "a.png", (OLD.timestamp(), OLD.timestamp()))
    (world.config.uploads / "2025/11").mkdir(parents=True)
    (world.config.uploads / DAY).symlink_to(outside)
    upload(world, "a", local(f"{DAY}/a.png"), "deleted")
    assert '"refused":1' in swept(world)
    assert (outside / "a.png").exists()
    assert remove(world.config.uploads, "../outside/a.png", MIDNIGHT) == "refused"


def test_a_link_to_itself_ends_no_sweep(world: World) -> None:
    (world.config.uploads / "2025/11").mkdir(parents=True)
    (world.config.uploads / DAY).symlink_to("18")
    put_file(world, "2025/11/17/a.png")
    world.run(
        "INSERT INTO upload_removals (path, noted_at) VALUES (?, ?)", f"{DAY}/a.png", stamp(OLD)
    )
    assert '"removed":1' in swept(world)
    assert noted(world) == []


def test_s5_d25_variants_go_with_their_upload_and_stay_with_it(world: World) -> None:
    for name in ("a.png", "a-small.png", "a-large.png", "b.png", "b-small.png"):
        put_file(world, f"{DAY}/{name}")
    block(world, "b", local(f"{DAY}/b.png"))
    small, large = local(f"{DAY}/a-small.png"), local(f"{DAY}/a-large.png")
    upload(world, "a", local(f"{DAY}/a.png"), "deleted", small, large)
    upload(world, "b", local(f"{DAY}/b.png"), "b", local(f"{DAY}/b-small.png"))
    swept(world)
    assert files(world) == [f"{DAY}/b-small.png", f"{DAY}/b.png"]
    assert world.rows("SELECT upload_id FROM upload_variants") == [("b",)]


def test_s5_d26_new_files_and_new_records_are_left(world: World) -> None:
    young = MIDNIGHT - timedelta(hours=23)
    put_file(world, f"{DAY}/being-uploaded.png", at=young)
    upload(world, "new", local(f"{DAY}/being-uploaded.png"), "block-on-the-way", at=young)
    put_file(world, f"{DAY}/old-file-of-new-record.png")
    upload(world, "newer", local(f"{DAY}/old-file-of-new-record.png"), "on-the-way", at=young)
    swept(world)
    assert len(files(world)) == 2
    assert records(world) == ["new", "newer"]


def test_s5_d26_uploads_of_teams_stay(world: World) -> None:
    put_file(world, f"{DAY}/team.png")
    upload(world, "team", local(f"{DAY}/team.png"), None)
    swept(world)
    assert (files(world), records(world)) == ([f"{DAY}/team.png"], ["team"])


def test_s5_d26_names_are_compared_whole(world: World) -> None:
    put_file(world, f"{DAY}/image.png")
    put_file(world, f"{DAY}/my-image.png")
    block(world, "b", local(f"{DAY}/my-image.png"))
    swept(world)
    assert files(world) == [f"{DAY}/my-image.png"]


def test_s5_d26_the_addresses_of_former_sites_keep_their_files(world: World) -> None:
    world.config = replace(world.config, sites=("new.example", "old.example"))
    for name in ("old", "new", "foreign"):
        put_file(world, f"{DAY}/{name}.png")
        block(world, name, f"https://{name}.example{local(f'{DAY}/{name}.png')}")
    swept(world)
    assert files(world) == [f"{DAY}/new.png", f"{DAY}/old.png"]


def test_s5_d26_most_files_go_only_if_that_is_wanted(world: World) -> None:
    """As after a change of SITE_URL that nobody told."""
    for number in range(150):
        put_file(world, f"{DAY}/{number}.png")
    upload(world, "orphan", local(f"{DAY}/1.png"), "deleted")
    assert "150 of 150 files seem to be unwanted" in swept(world, state="failed")
    assert (len(files(world)), records(world), noted(world)) == (150, ["orphan"], [])
    world.config = replace(world.config, remove_share_max=1.0)
    swept(world)
    assert files(world) == []


def test_s5_d28_uploads_are_read_and_deleted_in_portions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("removals", "wanted", "folder"):
        monkeypatch.setattr(f"credits.uploads.{module}.PORTION", 3)
    for number in range(10):
        put_file(world, f"{DAY}/{number}.png")
        upload(world, f"u{number}", local(f"{DAY}/{number}.png"), "gone" if number % 2 else "b")
    for number in range(7):
        block(world, f"x{number}", local(f"{DAY}/1.png"))
    block(world, "b")
    swept(world)
    assert files(world) == [f"{DAY}/{number}.png" for number in (0, 1, 2, 4, 6, 8)]
    assert records(world) == [f"u{number}" for number in (0, 2, 4, 6, 8)]


def test_s5_a15_empty_folders_go_in_one_run_and_the_root_stays(world: World) -> None:
    (world.config.uploads / "2025/11/17").mkdir(parents=True)
    assert '"folders":3' in swept(world)
    assert list(world.config.uploads.iterdir()) == []


def test_s5_38_folders_are_looked_at_only_after_a_sweep_that_succeeded(world: World) -> None:
    (world.config.uploads / "2025/11/17").mkdir(parents=True)
    for number in range(101):
        put_file(world, f"{DAY}/{number}.png")
    swept(world, state="failed")
    assert (world.config.uploads / "2025/11/17").exists()


def test_folders_that_the_sweep_has_emptied_go_in_the_same_run(world: World) -> None:
    put_file(world, "2025/01/02/a.png")
    put_file(world, f"{DAY}/b.png", at=MIDNIGHT)
    assert '"folders":3' not in swept(world)
    assert files(world) == [f"{DAY}/b.png"]
    assert not (world.config.uploads / "2025/01").exists()


def test_s5_d27_the_folders_of_these_days_stay(tmp_path: Path) -> None:
    for day in ("2025/11/19", "2025/11/20", "2025/11/21", "2025/11/22", "2025/11/18"):
        (tmp_path / day).mkdir(parents=True)
    assert remove_empty_folders(tmp_path, MIDNIGHT, lambda: False) == 1
    assert not (tmp_path / DAY).exists()
    assert (tmp_path / "2025/11/21").exists()


def test_s5_d27_an_upload_makes_its_folder_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is removed between the two steps of an upload."""
    write: Callable[[Path, bytes], int] = Path.write_bytes
    folders = iter([True, False])

    def written_late(file: Path, content: bytes) -> int:
        if next(folders):
            file.parent.rmdir()
        return write(file, content)

    monkeypatch.setattr(Path, "write_bytes", written_late)
    store(tmp_path, f"{DAY}/a.png", b"picture")
    assert (tmp_path / DAY / "a.png").read_bytes() == b"picture"


def test_s5_39_a_look_at_folders_ends_when_its_job_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "2025/11/17").mkdir(parents=True)
    assert remove_empty_folders(tmp_path, MIDNIGHT, lambda: True) == 0


def test_s5_42_the_files_of_a_deleted_block_go_within_a_minute(world: World) -> None:
    for name in ("own.png", "own-small.png", "shared.png", "other.png"):
        put_file(world, f"{DAY}/{name}")
    block(world, "gone", local(f"{DAY}/own.png"), local(f"{DAY}/shared.png"))
    block(world, "left", local(f"{DAY}/shared.png"))
    upload(world, "own", local(f"{DAY}/own.png"), "gone", local(f"{DAY}/own-small.png"))
    upload(world, "shared", local(f"{DAY}/shared.png"), "gone")
    program = build(world.config)
    with program.beat.testing(at=NOON) as trial:
        trial.drain()
        world.finish(program.delete_block("gone", NOON))
        assert records(world) == []
        assert len(files(world)) == 4
        trial.advance("1m")
        trial.assert_ran("credits.remove_noted_uploads", times=1)
    assert files(world) == [f"{DAY}/other.png", f"{DAY}/shared.png"]
    assert noted(world) == []


def test_many_deletions_of_a_minute_are_one_job(world: World) -> None:
    program = build(world.config)
    with program.beat.testing(at=NOON) as trial:
        for number in range(30):
            block(world, f"b{number}")
            put_file(world, f"{DAY}/{number}.png")
            upload(world, f"u{number}", local(f"{DAY}/{number}.png"), f"b{number}")
            at = NOON + timedelta(seconds=number)
            world.finish(program.delete_block(f"b{number}", at))
        trial.advance("1m")
        trial.assert_ran("credits.remove_noted_uploads", times=1)
    assert files(world) == []


def test_s5_d23_a_note_that_comes_during_the_look_waits_for_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look asks only for what wants the files that were noted before it."""
    for name in ("first.png", "shared.png"):
        put_file(world, f"{DAY}/{name}")
    for id, name in (("gone", "first.png"), ("going", "shared.png"), ("left", "shared.png")):
        block(world, id, local(f"{DAY}/{name}"))
    upload(world, "first", local(f"{DAY}/first.png"), "gone")
    upload(world, "shared", local(f"{DAY}/shared.png"), "going")

    async def look_while_a_block_goes(*given: Any) -> None:
        await collect(*given)
        async with world.database.session() as other, other.transaction():
            await forget_block(other, "going", world.config, NOON)

    monkeypatch.setattr("credits.uploads.removals.collect", look_while_a_block_goes)
    program = build(world.config)
    with program.beat.testing(at=NOON) as trial:
        world.finish(program.delete_block("gone", NOON))
        trial.advance("1m")
        assert (files(world), noted(world)) == ([f"{DAY}/shared.png"], [f"{DAY}/shared.png"])
        monkeypatch.undo()
        program.remove_noted.send()
        trial.drain()
    assert (files(world), noted(world)) == ([f"{DAY}/shared.png"], [])


def test_a_young_file_of_a_deleted_block_is_left_to_the_sweep(world: World) -> None:
    put_file(world, f"{DAY}/a.png", at=NOON)
    block(world, "b", local(f"{DAY}/a.png"))
    upload(world, "a", local(f"{DAY}/a.png"), "b", at=NOON)
    program = build(world.config)
    with program.beat.testing(at=NOON) as trial:
        world.finish(program.delete_block("b", NOON))
        trial.advance("1m")
    assert (files(world), noted(world)) == ([f"{DAY}/a.png"], [f"{DAY}/a.png"])
    swept(world, MIDNIGHT + timedelta(days=1))
    assert (files(world), noted(world)) == ([], [])
