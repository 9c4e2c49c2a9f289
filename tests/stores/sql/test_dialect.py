"""Statements that are written once, as each driver takes them."""

import apsw
import pytest

from onbeat.stores.mysql.transaction import join_keys
from onbeat.stores.sql.dialect import MYSQL, POSTGRES, SQLITE, Columns, translate
from onbeat.stores.sqlite.transaction import bound

SQL = "SELECT 1 FROM onbeat.audit JOIN onbeat.api_keys ON actor = name WHERE at < ? AND id = ?"


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (POSTGRES, "FROM audit JOIN api_keys ON actor = name WHERE at < $1 AND id = $2"),
        (MYSQL, "FROM audit JOIN api_keys ON actor = name WHERE at < %s AND id = %s"),
        (SQLITE, "FROM onbeat_audit JOIN onbeat_keys ON actor = name WHERE at < ? AND id = ?"),
    ],
)
def test_marks_and_names_of_tables_are_those_of_the_database(dialect, text):
    assert dialect.text(SQL) == f"SELECT 1 {text}"


@pytest.mark.parametrize(
    ("dialect", "ending"),
    [
        (
            POSTGRES,
            "WHERE id = ANY(ARRAY(SELECT id FROM audit WHERE at < $1 ORDER BY at LIMIT $2))",
        ),
        (MYSQL, "WHERE at < %s ORDER BY at LIMIT %s"),
        (
            SQLITE,
            "WHERE id IN (SELECT id FROM onbeat_audit WHERE at < ? ORDER BY at LIMIT ?)",
        ),
    ],
)
def test_the_first_rows_are_deleted_by_one_statement(dialect, ending):
    text = dialect.text(dialect.delete_first("audit", "id", "at < ?", "at"))
    assert text == f"DELETE FROM {dialect.table('audit')} {ending}"


@pytest.mark.parametrize(
    ("dialect", "kept", "changed"),
    [
        (
            POSTGRES,
            "ON CONFLICT (id) DO NOTHING",
            "ON CONFLICT (id) DO UPDATE SET object = excluded.object, record = excluded.record",
        ),
        (
            MYSQL,
            "ON DUPLICATE KEY UPDATE id = id",
            "ON DUPLICATE KEY UPDATE object = VALUES(object), record = VALUES(record)",
        ),
        (
            SQLITE,
            "ON CONFLICT (id) DO NOTHING",
            "ON CONFLICT (id) DO UPDATE SET object = excluded.object, record = excluded.record",
        ),
    ],
)
def test_a_row_that_is_there_is_left_or_changed(dialect, kept, changed):
    assert dialect.unless_there("id") == kept
    assert dialect.or_change("id", ["object", "record"]) == changed


@pytest.mark.parametrize(
    ("dialect", "condition"),
    [
        (POSTGRES, "id = ANY($1::uuid[])"),
        (MYSQL, "id IN %s"),
        (SQLITE, "id IN (SELECT value FROM json_each(?))"),
    ],
)
def test_a_list_of_values_is_one_value(dialect, condition):
    assert dialect.text(dialect.in_list("id", "uuid")) == condition


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (
            POSTGRES,
            (
                "INSERT INTO attempts (job_id, token) SELECT job_id, token"
                " FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS new (job_id, token, place)"
                " ORDER BY place ON CONFLICT (token) DO NOTHING"
            ),
        ),
        (
            MYSQL,
            (
                "INSERT INTO attempts (job_id, token) VALUES (%s, %s)"
                " ON DUPLICATE KEY UPDATE token = token"
            ),
        ),
        (
            SQLITE,
            (
                "INSERT INTO onbeat_attempts (job_id, token) SELECT * FROM :rows"
                " WHERE column1 IS NOT NULL ON CONFLICT (token) DO NOTHING"
            ),
        ),
    ],
)
def test_many_rows_are_inserted_as_the_driver_takes_them_best(dialect, text):
    columns = {"job_id": "uuid", "token": "integer"}
    sql = dialect.insert("attempts", columns, dialect.unless_there("token"))
    assert " ".join(dialect.text(sql).split()) == text


KEY = {"queue": "text", "grp": "text"}


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (
            POSTGRES,
            (
                "DELETE FROM meters USING unnest($1::text[], $2::text[]) AS gone (queue, grp)"
                " WHERE meters.queue = gone.queue AND meters.grp = gone.grp"
            ),
        ),
        (
            MYSQL,
            ("DELETE meters FROM meters FORCE INDEX (PRIMARY) WHERE queue = %s AND grp IN %s"),
        ),
        (
            SQLITE,
            (
                "DELETE FROM onbeat_meters WHERE (queue, grp) IN"
                " (SELECT column1, column2 FROM :rows WHERE column1 IS NOT NULL)"
            ),
        ),
    ],
)
def test_many_rows_are_deleted_by_their_keys(dialect, text):
    assert " ".join(dialect.text(dialect.delete_each("meters", KEY)).split()) == text


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (
            POSTGRES,
            (
                "UPDATE jobs SET spec = changed.spec"
                " FROM unnest($1::uuid[], $2::text[]) AS changed (id, spec)"
                " WHERE jobs.id = changed.id"
            ),
        ),
        (MYSQL, "UPDATE jobs FORCE INDEX (PRIMARY) SET spec = %s WHERE id IN %s"),
        (SQLITE, "UPDATE onbeat_jobs SET spec = column2 FROM :rows WHERE id = column1"),
    ],
)
def test_many_rows_are_changed_by_their_keys(dialect, text):
    sql = dialect.update_each("jobs", {"id": "uuid"}, {"spec": "text"})
    assert " ".join(dialect.text(sql).split()) == text


@pytest.mark.parametrize(
    ("dialect", "hint"),
    [
        (POSTGRES, ""),
        (MYSQL, "FORCE INDEX (schedules_due)"),
        (SQLITE, "INDEXED BY onbeat_schedules_due"),
    ],
)
def test_planners_are_told_an_index_that_they_may_miss(dialect, hint):
    assert dialect.use_index("schedules_due") == hint


def test_rows_that_differ_in_the_end_of_their_key_share_a_statement_of_mysql():
    rows = [(("a",), 1), (("b",), 2), (("a",), 3)]
    assert join_keys(rows) == [("a", (1, 3)), ("b", (2,))]


def test_postgres_selects_for_many_rows_in_one_statement():
    columns: Columns = {"schedule_id": "uuid", "at": "bigint"}
    rest = "FROM onbeat.dispositions WHERE schedule_id = params.schedule_id AND first <= params.at"
    text = POSTGRES.text(POSTGRES.select_each("first, last", rest, columns))
    assert " ".join(text.split()) == (
        "SELECT found.* FROM unnest($1::uuid[], $2::bigint[]) AS params (schedule_id, at)"
        " CROSS JOIN LATERAL (SELECT first, last FROM dispositions"
        " WHERE schedule_id = params.schedule_id AND first <= params.at OFFSET 0) AS found"
    )


@pytest.mark.parametrize("dialect", [POSTGRES, MYSQL, SQLITE])
def test_statements_are_sent_without_their_indentation(dialect):
    sql = """
        SELECT 1
          FROM onbeat.audit
    """
    assert translate(dialect, sql) == f"SELECT 1\nFROM {dialect.table('audit')}"


def test_bytes_are_read_as_text_where_rows_are_json():
    text = SQLITE.in_json("X'00ff'")
    ((value,),) = apsw.Connection(":memory:").execute(f"SELECT {text}")
    assert SQLITE.read_bytes(value) == b"\x00\xff"
    for dialect in (POSTGRES, MYSQL):
        assert dialect.in_json("digest") == "digest"
        assert dialect.read_bytes(b"\x00\xff") == b"\x00\xff"


def test_a_list_of_bytes_is_found_by_its_values():
    text = SQLITE.text(f"SELECT {SQLITE.in_list('?', 'bytea')}")
    found = apsw.Connection(":memory:").execute(text, (b"\xff", bound((b"\x00", b"\xff"))))
    assert list(found) == [(1,)]
