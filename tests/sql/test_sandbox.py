"""A statement reads the graph's tables: it reaches no file, network, setting or other catalog, and changes nothing."""

import os
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.duckdb.allowed_functions import SCALAR_FUNCTIONS, TABLE_FUNCTIONS
from omnigraph.engine.duckdb.connection import open_connection
from omnigraph.engine.duckdb.sql_errors import SqlError

SECRET = "the-content-of-a-secret-file"  # noqa: S105 - of a file that no statement may read

# `{file}` is a file that exists, `{dir}` its directory.
ATTEMPTS = [
    "select * from '{file}'",
    'select * from "{file}"',
    "from '{dir}/*.csv'",
    "select * from read_csv('{file}')",
    "select * from read_csv_auto('{file}')",
    "select * from read_text('{file}')",
    "select * from read_blob('{file}')",
    "select * from read_parquet('{file}')",
    "select * from parquet_scan('{file}')",
    "select * from parquet_metadata('{file}')",
    "select * from read_json('{file}')",
    "select * from read_json_auto('{file}')",
    "select * from read_ndjson_objects('{file}')",
    "select * from read_duckdb('{file}')",
    "select * from sniff_csv('{file}')",
    "select * from glob('{dir}/*')",
    "select * from main.read_text('{file}')",
    "select * from system.main.read_text('{file}')",
    "select (select content from read_text('{file}'))",
    "with x as (select * from read_text('{file}')) select * from x",
    "select * from Person, lateral (select * from read_text('{file}'))",
    "select * from Person where id in (select content from read_text('{file}'))",
    "select * from read_text('http://127.0.0.1:9/x')",
    "select * from read_parquet('s3://bucket/key')",
    "copy Person to '{dir}/out.csv'",
    "copy (select 1) to '{dir}/out.parquet'",
    "copy Person from '{file}'",
    "export database '{dir}/out'",
    "import database '{dir}'",
    "attach '{dir}/other.db' as other",
    "attach ':memory:' as other",
    "detach memory",
    "use temp",
    "install httpfs",
    "load httpfs",
    "force install httpfs from community",
    "load '{file}'",
    "set threads = 1",
    "set enable_external_access = true",
    "set temp_directory = '{dir}'",
    "reset temp_directory",
    "set lock_configuration = false",
    "set variable x = 1",
    "select getvariable('x')",
    "pragma database_list",
    "pragma enable_profiling",
    "pragma profiling_output = '{dir}/profile.json'",
    "pragma version",
    "select * from pragma_version()",
    "select * from pragma_database_size()",
    "select * from pragma_platform()",
    "select * from pragma_user_agent()",
    "select current_setting('temp_directory')",
    "select current_setting('home_directory')",
    "select getenv('HOME')",
    "select version()",
    "select current_database()",
    "select * from duckdb_settings()",
    "select * from duckdb_secrets()",
    "select * from duckdb_extensions()",
    "select * from duckdb_databases()",
    "select * from duckdb_temporary_files()",
    "select * from duckdb_views()",
    "select * from duckdb_functions()",
    "select * from duckdb_logs()",
    "select * from duckdb_memory()",
    "select * from which_secret('s3://x', 's3')",
    "select * from sqlite_master",
    "select * from information_schema.tables",
    "select * from pg_catalog.pg_tables",
    "select * from memory.main.Person",
    "select * from temp.information_schema.schemata",
    "with sqlite_master as (select * from sqlite_master) select * from sqlite_master",
    "select * from (with duckdb_tables as (select 1) select * from duckdb_tables) a, duckdb_tables",
    "select * from query('select 1')",
    "select * from query_table('Person')",
    "select * from query_table(['Person'])",
    "select * from json_execute_serialized_sql('{{}}')",
    "select json_serialize_plan('select 1')",
    "select * from arrow_scan(1, 2, 3)",
    "select * from arrow_scan_dumb(1, 2, 3)",
    "select * from python_arrow_scan(1)",
    "select * from pandas_scan(1)",
    "select * from seq_scan('x')",
    "select * from python_map_function(1)",
    "select * from outside",
    "select * from SECRET",
    "select write_log('x')",
    "select * from enable_logging()",
    "select * from enable_profiling()",
    "select * from checkpoint()",
    "select * from create_external_resource('x')",
    "select sleep_ms(10000)",
    "select pg_sleep(10)",
    "show tables",
    "show all tables",
    "show databases",
    "show threads",
    "describe duckdb_settings",
    "describe select * from read_text('{file}')",
    "summarize '{file}'",
    "select 1; drop view Person",
    "select 1; select * from read_text('{file}')",
    "select * from Person; copy Person to '{dir}/out.csv'",
    "with x as (delete from Person returning *) select * from x",
    "with x as (insert into Person values (1) returning *) select * from x",
    "with x as (update Person set name = 'x' returning *) select * from x",
    "create table t as select 1",
    "create view Person as select 1",
    "create macro f() as 1",
    "create secret s (type s3)",
    "create type t as enum ('a')",
    "create sequence s",
    "insert into Person values ('x')",
    "update Person set name = 'x'",
    "delete from Person",
    "drop view Person",
    "alter view Person rename to P",
    "truncate Person",
    "begin transaction",
    "commit",
    "checkpoint",
    "vacuum",
    "analyze",
    "call duckdb_settings()",
    "prepare p as select * from read_text('{file}')",
    "execute p",
    "deallocate p",
    "explain select * from Person",
    "explain analyze select * from Person",
    "comment on view Person is 'x'",
    "select * from Person at (version => 1)",
    "pivot Person on name",
    "select list_transform([1], lambda x: (select content from read_text('{file}')))",
    "select 'x'.getenv()",
    "select x.read_text() from (select '{file}' as x)",
    "select count(*) filter (where current_setting('temp_directory') <> '') from Person",
    "select rank() over (order by current_setting('threads')) from Person",
    "select * from range(getvariable('x'))",
    "values (current_setting('secret_directory'))",
    "select * from Person order by current_setting('threads')",
    "select * from Person limit (select count(*) from duckdb_settings())",
    "select cast(current_setting('threads') as int)",
    "select * replace (version() as name) from Person",
    "select case when version() = '' then 1 end",
    "select currval('s')",
    "select nextval('s')",
    "select current_query()",
    "select in_search_path('a', 'b')",
    "from 'https://127.0.0.1:9/x.parquet'",
    "from 's3://bucket/x.parquet'",
    "from 'hf://datasets/x/y.csv'",
    "from 'file://{file}'",
    "from '/proc/self/environ'",
    "from '~/.duckdbrc'",
    "from read_csv(['{file}'])",
    "from read_csv('/dev/stdin')",
    "from read_json_objects('{file}')",
    "from parquet_schema('{file}')",
    "from parquet_kv_metadata('{file}')",
    "from parquet_file_metadata('{file}')",
    "from read_xlsx('{file}')",
    "from st_read('{file}')",
    "from sqlite_scan('{file}', 't')",
    "from postgres_scan('', '', '')",
    "from iceberg_scan('{file}')",
    "from delta_scan('{file}')",
    "from duckdb_tables()",
    "from duckdb_columns()",
    "from duckdb_variables()",
    "from duckdb_prepared_statements()",
    "from information_schema.columns",
    "from pg_settings",
    "from pragma_table_info('Person')",
    "from pragma_storage_info('Person')",
    "from sql_auto_complete('select')",
    "from test_all_types()",
    "from query_table('duckdb_settings')",
    "from query('from read_text(''{file}'')')",
    "from unnest(getvariable('x'))",
    'from "Person 0"',
    "call pragma_version()",
    "set global threads = 1",
    "set session threads = 1",
    "reset all",
    "pragma threads = 1",
    "pragma memory_limit = '1TB'",
    "pragma table_info('Person')",
    "use system",
    "copy Person to 's3://bucket/key'",
    "copy database memory to other",
    "export database 's3://bucket/key' (format parquet)",
    "attach 'https://127.0.0.1:9/y.db' as z (type duckdb)",
    "attach '{dir}/x.db' (type sqlite)",
    "load '{dir}/x.duckdb_extension'",
    "update extensions",
    "create temp table t as select 1",
    "create temp macro f() as 1",
    "create or replace persistent secret s (type s3)",
    "drop secret s",
    "insert or replace into Person values ('x')",
    "merge into Person using Knows on true when matched then delete",
    "with x as materialized (delete from Person returning *) select count(*) from x",
    "with x as (merge into Person using Knows on true when matched then delete returning *) from x",
    "with recursive x as (delete from Person returning *) select * from x",
    "select * from (delete from Person returning *)",
    "prepare p as select 1",
    "execute p(1)",
    "explain copy Person to '{dir}/x'",
    "import database 's3://bucket/key'",
    "do $$ begin end $$",
    "select system.main.getenv('PATH')",
    "select [getenv(x) for x in ['HOME']]",
    "select columns(x -> getenv('HOME') = '') from Person",
    "select * from Person group by getenv('HOME')",
    "select * from Person qualify current_setting('threads') = '1'",
    "select * from Person p positional join duckdb_settings()",
    "unpivot duckdb_settings on name",
    "pivot (from read_text('{file}')) on filename",
    "describe '{file}'",
    "select current_setting('extension_directory')",
    "select current_schemas(true)",
    "select pg_get_viewdef(1)",
    "select error('x')",
    "select 1; commit",
    "/* a comment */ copy Person to '{dir}/x'",
    ".read {file}",
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text(SECRET, encoding="utf-8")
    return path


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_nothing_else_is_reached(people: og.Graph, file: Path, attempt: str) -> None:
    # A Python object with a name that a replacement scan would take.
    outside = pa.table({"x": [1]})
    before = people.query("query q() { match { $p: Person } return { $p } }").rows()
    statement = attempt.format(file=file, dir=file.parent)

    with pytest.raises(SqlError) as caught:
        people.sql(statement)

    message = str(caught.value).replace(str(file), "").replace(str(file.parent), "")
    assert SECRET not in message
    assert not [word for word in ("/tmp", "/root", "/home", "/dev/shm", "omnigraph-sql-") if word in message]  # noqa: S108
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert people.query("query q() { match { $p: Person } return { $p } }").rows() == before
    assert outside.num_rows == 1


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_text('{file}')",
        "select * from '{file}'",
        "copy (select 1) to '{dir}/out.csv'",
        "attach '{dir}/other.db'",
        "install httpfs",
        "load httpfs",
        "set threads = 1",
        "set enable_external_access = true",
        "select * from outside",
    ],
)
def test_the_connection_alone_refuses_too(file: Path, statement: str) -> None:
    outside = pa.table({"x": [1]})

    with open_connection(memory_bytes=2**26, spill_bytes=2**20, threads=1) as connection, pytest.raises(duckdb.Error):
        connection.execute(statement.format(file=file, dir=file.parent)).fetchall()

    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert outside.num_rows == 1


def test_values_tell_nothing_of_the_host(people: og.Graph) -> None:
    found = people.sql("select current_user u, user v, current_catalog c, current_schema s, session_user w").rows()

    assert set(found[0].values()) <= {"duckdb", "memory", "main"}


def test_a_variable_of_python_never_stands_for_a_type(people: og.Graph) -> None:
    Topic = pa.table({"name": ["of the program"]})  # noqa: N806 - it is called like the type

    assert people.sql("select name from Topic").rows() == [{"name": "chess"}]
    assert Topic.num_rows == 1


def test_every_allowed_function_exists_and_none_is_a_reader() -> None:
    kinds: dict[str, set[str]] = {}
    with closing(duckdb.connect()) as connection:
        rows = connection.execute(
            "select distinct lower(function_name), function_type from duckdb_functions()"
        ).fetchall()
    for name, kind in rows:
        kinds.setdefault(name, set()).add(kind)

    assert {
        name for name in SCALAR_FUNCTIONS if not kinds.get(name, set()) & {"scalar", "aggregate", "macro", "window"}
    } <= {"current_date"}
    assert {name for name in TABLE_FUNCTIONS if "table" not in kinds.get(name, set())} == set()


def test_the_environment_is_not_read(people: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "HOME", "/nowhere")

    assert people.sql("select 1 as x").rows() == [{"x": 1}]


def test_no_progress_is_drawn_on_stdout() -> None:
    with open_connection(memory_bytes=2**26, spill_bytes=2**20, threads=1) as connection:
        assert connection.execute("select current_setting('enable_progress_bar')").fetchall() == [(False,)]
