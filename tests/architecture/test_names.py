"""One name for one thing, and plain words: held by reading every name and every sentence."""

import ast
import functools
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from syntax import syntax_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "onbeat"
UPGRADE = ROOT / "docs" / "guides" / "upgrade.md"  # it names the older names
PAGES = [
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page != UPGRADE),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]

# Packages of parallel adapters: in each of them a part has the same name, and once in an adapter.
PARALLEL = ("stores", "transports")

# Packages whose modules are named in sentences as `rules.plans`.
PACKAGES = ("engine", "model", "ports", "rules", "stores", "targets", "transports", "wire")

# Modules whose names end in `ing` as nouns do.
NOUNS = {"keyring", "setting", "test_logging", "test_tracing", "tracing"}

# Words that were used for things that the field has a word of its own for. They stand for
# themselves in every form that is listed, as a part of a name or as a word of a sentence.
WORDS = {
    "bury": "add to the dead letters",
    "buried": "dead-lettered",
    "burying": "dead letters",
    "exhume": "delete from the dead letters",
    "exhumed": "deleted",
    "carton": "export",
    "cartons": "exports",
    "clerk": "admin",
    "befell": "history",
    "gatherer": "batcher",
    "sibling": "worker process",
    "siblings": "worker processes",
}
# As parts of names only: in a sentence they may mean something else.
NAME_WORDS = WORDS | {
    "annex": "background loop",
    "crew": "fleet",
    "desk": "backend",
    "parcel": "prepared import",
    "told": "what it is: answer, response, progress",
    "said": "what it is: options, message, fields",
    "asked": "what it is: request, params",
    "befallen": "history",
    "lot": "batch",
    "lots": "batches",
}


@functools.cache
def words_of(name: str) -> list[str]:
    """The words of a name: `add_dead_letters` and `DeadLetter` alike, in lower case."""
    return re.findall(r"[a-z]+|[A-Z]+(?![a-z])", re.sub(r"([A-Z][a-z]+)", r"_\1_", name).lower())


@functools.lru_cache(maxsize=1)
def nodes_of(text: str) -> list[ast.AST]:
    return list(ast.walk(syntax_of(text)))


def names_in(text: str) -> Iterator[tuple[int, str]]:
    """Every name that the source defines, with its line."""
    for node in nodes_of(text):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case _:
                pass


def sentences_in(text: str) -> Iterator[tuple[int, str]]:
    """Every docstring and comment of the source, with its line."""
    for node in nodes_of(text):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def faults_in_source(place: str, text: str) -> list[str]:
    faults = [
        f"{place}:{line}: {name}: for {word!r} say {NAME_WORDS[word]}"
        for line, name in names_in(text)
        if not name.startswith("test_")  # these are sentences
        for word in words_of(name)
        if word in NAME_WORDS
    ]
    for line, sentence in sentences_in(text):
        faults += [f"{place}:{line}: {fault}" for fault in faults_in_sentence(sentence)]
    return faults


def faults_in_sentence(text: str) -> list[str]:
    words = set(re.findall(r"[a-z]+", text.lower()))
    return [f"for {word!r} say {WORDS[word]}" for word in sorted(words & WORDS.keys())]


def doubled(classes: dict[str, list[str]]) -> list[str]:
    """Names of classes that stand for more than one thing; `classes` gives their modules."""
    return [
        f"{name}: {', '.join(sorted(places))}"
        for name, places in sorted(classes.items())
        if len(places) > 1 and not are_parallel(places)
    ]


def are_parallel(places: list[str]) -> bool:
    packages = {place.partition("/")[0] for place in places}
    adapters = {"/".join(place.split("/")[:2]) for place in places}
    return len(packages) == 1 and packages <= set(PARALLEL) and len(adapters) == len(places)


def classes_of(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(syntax_of(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(folder).as_posix())
    return found


def verbal(names: list[str]) -> list[str]:
    """Modules that are named by what they do rather than by what they hold."""
    return [name for name in names if name.endswith("ing") and name not in NOUNS]


def test_a_class_name_means_one_thing():
    assert doubled(classes_of(SOURCE)) == []


def test_no_module_is_named_by_a_participle():
    paths = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    assert verbal(sorted({path.stem for path in paths})) == []


def test_words_that_are_gone_do_not_come_back():
    faults = [
        fault
        for path in sorted(SOURCE.rglob("*.py"))
        for fault in faults_in_source(path.relative_to(SOURCE).as_posix(), path.read_text())
    ]
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            place = f"{page.relative_to(ROOT)}:{number}"
            faults += [f"{place}: {fault}" for fault in faults_in_sentence(line)]
    assert faults == []


MODULE = re.compile(rf"`(?:onbeat\.)?((?:{'|'.join(PACKAGES)})\.[a-z_.]+)`")


def missing_modules(text: str) -> list[str]:
    """The modules that a text names in backticks, or whose parts it names, and that are gone."""
    names = [name.split(".") for name in MODULE.findall(text)]
    return [".".join(name) for name in names if not is_module(SOURCE / name[0] / name[1])]


def is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def test_modules_that_are_named_exist():
    texts = [*SOURCE.rglob("*.py"), ROOT / "docs" / "explain" / "architecture.md"]
    faults = {path: missing_modules(path.read_text()) for path in texts}
    assert {path: names for path, names in faults.items() if names} == {}
    assert missing_modules("see `rules.planning` and `onbeat.rules.plans`") == ["rules.planning"]


@pytest.mark.parametrize(
    "text",
    [
        "def bury_all(): ...",
        "class DeskClerk: ...",
        "def send(carton): ...",
        "carton = 1",
        "self.crew = 1",
        '"""Exhume what was put aside."""',
        "x = 1  # a carton for each",
    ],
)
def test_a_planted_word_is_found(text: str):
    assert len(faults_in_source("planted.py", text)) >= 1


def test_planted_classes_and_modules_are_found():
    assert doubled({"Line": ["stores/mysql/a.py", "engine/b.py"]}) != []
    assert doubled({"Line": ["stores/mysql/a.py", "stores/mysql/b.py"]}) != []
    assert doubled({"Line": ["stores/mysql/a.py", "stores/postgres/a.py"]}) == []
    assert verbal(["burying", "keyring"]) == ["burying"]
