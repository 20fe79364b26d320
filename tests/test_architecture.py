"""The rules of the house that a reader relies on, checked on the source itself.

Which room may import which, what never loads a heavy package, what never unpacks a pickle, how long
a file or a function may be. Every violation is one line: file, line number, rule.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

_MODELS = {"config", "data"}
_ACTING = {*_MODELS, "models"}
_ROLLOUT = {*_ACTING, "policies", "envs"}
_TRAINING = {*_ROLLOUT, "rollout"}
MAY_IMPORT: dict[str, set[str]] = {
    "config": set(),
    "data": {"config"},
    "models": _MODELS,
    "policies": _ACTING,
    "envs": _ACTING,
    "rollout": _ROLLOUT,
    "training": {*_TRAINING, "cluster", "reporting"},
    "algorithms": {*_TRAINING, "training"},
    "cluster": {"config"},
    "reporting": {"config"},
    "offline": {"config", "data"},
    "cli": {*_TRAINING, "training", "algorithms", "cluster", "reporting", "offline"},
}
"""Room to the other rooms that it may import."""

MAY_IMPORT_BESIDES = {
    "dtrainer.rollout.worker_set": {"cluster"},
    "dtrainer.rollout.failures": {"cluster"},
}
"""Single modules that may import more than their room."""

LIGHT = "dtrainer.rollout.worker"
"""It and what it imports at module level run in every actor process."""
HEAVY = {"distributed", "dask", "torch"}
DASK = {"dask", "distributed"}
FILE_LINES = 550
FUNCTION_LINES = 60

UNPICKLERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve"}
UNPICKLES = {"load", "loads", "Unpickler", "open"}
THE_ONE_UNPICKLING = "dtrainer.cluster.wire"
ITS_MARK = "# noqa: S301 - an answer of our own actor"
CREATES_ACTORS = "dtrainer.cluster.starting"
"""Its `client.gather` awaits the ordinary futures that create the actors."""


@dataclass(frozen=True)
class Import:
    """A module that is imported, maybe with a name that may be a module of its own."""

    line: int
    module: str
    name: str | None
    at_module_level: bool
    for_types: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Module:
    """A source file, parsed."""

    name: str
    file: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def is_package(self) -> bool:
        return self.file.endswith("__init__.py")

    @property
    def room(self) -> str:
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    def says(self, line: int, rule: str) -> str:
        return f"{self.file}:{line}: {rule}"


def read(sources: Mapping[str, str]) -> dict[str, Module]:
    """Files by path relative to the root, as modules by name."""
    modules = {}
    for file, text in sources.items():
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        modules[name] = Module(name, file, textwrap.dedent(text))
    return modules


def the_project() -> dict[str, Module]:
    files = sorted((ROOT / "dtrainer").rglob("*.py"))
    return read({path.relative_to(ROOT).as_posix(): path.read_text() for path in files})


# ---- imports -------------------------------------------------------------------------


def imports(module: Module) -> list[Import]:
    return list(_imports(module, module.tree.body, at_module_level=True, for_types=False))


def _imports(
    module: Module, body: list[ast.stmt], *, at_module_level: bool, for_types: bool
) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, None, at_module_level, for_types)
        elif isinstance(node, ast.ImportFrom):
            source = _source(module, node)
            for alias in node.names:
                yield Import(node.lineno, source, alias.name, at_module_level, for_types)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(module, node.body, at_module_level=at_module_level, for_types=True)
            yield from _imports(
                module, node.orelse, at_module_level=at_module_level, for_types=for_types
            )
        else:
            runs_later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports_by_name(node, at_module_level and not runs_later, for_types)
            for inner in _bodies(node):
                yield from _imports(
                    module,
                    inner,
                    at_module_level=at_module_level and not runs_later,
                    for_types=for_types,
                )


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of a statement: of a function, a class, an `if`, a `try`, a `match`."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield block
    for field in ("handlers", "cases"):
        for part in getattr(node, field, []):
            yield from _bodies(part)


def _source(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    up = node.level - 1 if module.is_package else node.level
    return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])


def _imports_by_name(node: ast.stmt, at_module_level: bool, for_types: bool) -> Iterator[Import]:
    """`import_module("a.b")` in a statement that has no block of its own."""
    if any(_bodies(node)):
        return
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        called = ast.unparse(call.func).rpartition(".")[2]
        name = call.args[0]
        if (
            called in ("import_module", "__import__")
            and isinstance(name, ast.Constant)
            and isinstance(name.value, str)
        ):
            yield Import(call.lineno, name.value, None, at_module_level, for_types)


def targets(entry: Import, modules: Mapping[str, Module]) -> list[str]:
    """Modules of the project that an import runs: the packages on the way, too."""
    full = f"{entry.module}.{entry.name}" if entry.name else entry.module
    if full not in modules:
        full = entry.module
    parts = full.split(".")
    names = [".".join(parts[: i + 1]) for i in range(len(parts))]
    return [name for name in names if name in modules]


# ---- the rules -----------------------------------------------------------------------


def check(modules: Mapping[str, Module]) -> list[str]:
    """Every violation, by file and line."""
    found: list[str] = []
    for module in modules.values():
        found += _arrows(module, modules)
        found += _dask_in_algorithms(module)
        found += _sizes(module)
        found += _unpickling(module)
        found += _waiting_for_actors(module)
    if LIGHT in modules:
        found += _heavy(modules)
    return found


def _arrows(module: Module, modules: Mapping[str, Module]) -> Iterator[str]:
    room = module.room
    if room and room not in MAY_IMPORT and module.name.count(".") + module.is_package > 1:
        yield module.says(1, f"{room} is no room that this test knows: give it its arrows")
        return
    allowed = MAY_IMPORT.get(room, set(MAY_IMPORT) - {"cli"})
    allowed = allowed | {room} | MAY_IMPORT_BESIDES.get(module.name, set())
    for entry in imports(module):
        for name in targets(entry, modules)[-1:]:
            other = modules[name].room
            if other in MAY_IMPORT and other not in allowed:
                yield module.says(entry.line, f"{room or 'dtrainer'} must not import {name}")


def _dask_in_algorithms(module: Module) -> Iterator[str]:
    if module.room == "algorithms":
        for entry in imports(module):
            if entry.top in DASK:
                yield module.says(entry.line, f"an algorithm must not import {entry.top}")


def _heavy(modules: Mapping[str, Module]) -> Iterator[str]:
    """Heavy packages in what the worker imports at module level, at one remove or at several."""
    way = {name: "" for name in ("dtrainer", "dtrainer.rollout", LIGHT) if name in modules}
    waiting = list(way)
    while waiting:
        module = modules[waiting.pop()]
        for entry in imports(module):
            if not entry.at_module_level or entry.for_types:
                continue
            if entry.top in HEAVY:
                rule = f"{LIGHT} must not load {entry.top} at module level{way[module.name]}"
                yield module.says(entry.line, rule)
            for name in targets(entry, modules):
                if name not in way:
                    way[name] = f"{way[module.name]}, by way of {module.name}"
                    waiting.append(name)


def _sizes(module: Module) -> Iterator[str]:
    lines = len(module.text.splitlines())
    if lines > FILE_LINES:
        yield module.says(lines, f"the file has {lines} lines, at most {FILE_LINES}")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = _code_lines(node)
            if length > FUNCTION_LINES:
                rule = f"{node.name} has {length} lines, at most {FUNCTION_LINES}"
                yield module.says(node.lineno, rule)


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function; a docstring grows with the parameters, so it does not count."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def _unpickling(module: Module) -> Iterator[str]:
    lines = module.text.splitlines()
    marked = 0
    for line, what in _unpickling_calls(module.tree):
        if module.name == THE_ONE_UNPICKLING and ITS_MARK in lines[line - 1]:
            marked += 1
            if marked == 1:
                continue
        yield module.says(line, f"{what} may run code from a file: not without a safe reader")


def _unpickling_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    nodes = list(ast.walk(tree))
    aliases = {
        alias.asname: alias.name
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname
    }
    for node in nodes:
        if isinstance(node, ast.Attribute):
            base = ast.unparse(node.value)
            base = aliases.get(base, base)
            if (
                (base in UNPICKLERS and node.attr in UNPICKLES)
                or (base == "torch" and node.attr == "load")
                or (base == "yaml" and node.attr in ("load", "load_all", "unsafe_load"))
            ):
                yield node.lineno, f"{base}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            dangerous = {"torch": {"load"}, "yaml": {"load", "load_all", "unsafe_load"}}
            dangerous |= dict.fromkeys(UNPICKLERS, UNPICKLES)
            for name in sorted(names & dangerous.get(node.module or "", set())):
                yield node.lineno, f"{node.module}.{name}"
        elif (
            isinstance(node, ast.keyword)
            and node.arg == "allow_pickle"
            and ast.unparse(node.value) != "False"
        ):
            yield node.value.lineno, "allow_pickle other than False"


def _waiting_for_actors(module: Module) -> Iterator[str]:
    """Dask's own waiting returns at once for the futures of actors; asyncio's does not."""
    if module.room != "cluster":
        return
    rule = "{} returns at once for an actor's future: await each call instead"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in DASK:
            for name in sorted({a.name for a in node.names} & {"as_completed", "wait", "gather"}):
                yield module.says(node.lineno, rule.format(name))
        elif isinstance(node, ast.Attribute):
            base = ast.unparse(node.value)
            waits = node.attr == "wait" and base in ("distributed", "dask.distributed")
            gathers = node.attr == "gather" and base != "asyncio"
            if module.name == CREATES_ACTORS and base == "client":
                gathers = False
            if node.attr == "as_completed" or waits or gathers:
                yield module.says(node.lineno, rule.format(f"{base}.{node.attr}"))


# ---- the project ---------------------------------------------------------------------


def test_the_project_keeps_its_rules() -> None:
    found = check(the_project())
    assert not found, "\n" + "\n".join(found)


def test_the_checker_sees_the_project() -> None:
    modules = the_project()
    rooms = {module.room for module in modules.values()}
    assert rooms >= set(MAY_IMPORT)
    assert {LIGHT, THE_ONE_UNPICKLING, CREATES_ACTORS, *MAY_IMPORT_BESIDES} <= set(modules)
    reached = {name for entry in imports(modules[LIGHT]) for name in targets(entry, modules)}
    assert "dtrainer.rollout.sampler" in reached
    assert ITS_MARK in modules[THE_ONE_UNPICKLING].text


def loaded_by(*modules: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after importing some modules."""
    program = (
        f"import sys, {', '.join(modules)}\nprint(*{{m.partition('.')[0] for m in sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_command_line_starts_light() -> None:
    loaded = loaded_by("dtrainer", "dtrainer.config", "dtrainer.cli", "dtrainer.cli.app")
    assert "pydantic" in loaded
    assert not loaded & {"torch", "distributed", "matplotlib", "tensorboard"}


def test_actors_start_light() -> None:
    loaded = loaded_by("dtrainer.rollout.worker")
    assert "numpy" in loaded
    assert not loaded & {"torch", "distributed"}


# ---- the checker ---------------------------------------------------------------------

SKELETON = {f"dtrainer/{room}/__init__.py": "" for room in MAY_IMPORT} | {
    "dtrainer/__init__.py": "",
    "dtrainer/data/batch.py": "",
    "dtrainer/training/trainer.py": "",
}

VIOLATIONS = {
    "later room": ("dtrainer/data/a.py", "\nfrom dtrainer.training import trainer", 2, "training"),
    "cycle of two acting rooms": ("dtrainer/envs/a.py", "import dtrainer.policies", 1, "policies"),
    "in a function": ("dtrainer/config/a.py", "def f():\n    import dtrainer.data", 2, "data"),
    "in a method of a class in a try": (
        "dtrainer/config/a.py",
        "try:\n    class A:\n        def f(self):\n            import dtrainer.data\nexcept E:\n"
        "    pass",
        4,
        "data",
    ),
    "in an except": (
        "dtrainer/config/a.py",
        "try:\n    pass\nexcept E:\n    import dtrainer.data",
        4,
        "data",
    ),
    "in an else": (
        "dtrainer/config/a.py",
        "if x:\n    pass\nelse:\n    import dtrainer.cli",
        4,
        "cli",
    ),
    "in a match": (
        "dtrainer/config/a.py",
        "match x:\n    case 1:\n        import dtrainer.cli",
        3,
        "cli",
    ),
    "for types": (
        "dtrainer/cluster/a.py",
        "if TYPE_CHECKING:\n    from dtrainer.data.batch import SampleBatch",
        2,
        "data.batch",
    ),
    "relative": ("dtrainer/data/a.py", "from ..models import b", 1, "models"),
    "relative, from a package": (
        "dtrainer/data/__init__.py",
        "from ..rollout import b",
        1,
        "rollout",
    ),
    "package as a name": ("dtrainer/offline/a.py", "from dtrainer import envs", 1, "envs"),
    "by name": ("dtrainer/config/a.py", "def f():\n    import_module('dtrainer.cli')", 2, "cli"),
    "cli from nowhere": ("dtrainer/algorithms/a.py", "import dtrainer.cli", 1, "cli"),
    "cli from the root": ("dtrainer/__init__.py", "import dtrainer.cli", 1, "cli"),
    "cluster from another rollout file": (
        "dtrainer/rollout/worker.py",
        "def f():\n    import dtrainer.cluster",
        2,
        "cluster",
    ),
    "reporting": ("dtrainer/reporting/a.py", "import dtrainer.training", 1, "training"),
    "a room without arrows": ("dtrainer/attic/a.py", "x = 1", 1, "no room"),
    "dask in an algorithm": (
        "dtrainer/algorithms/a.py",
        "def f():\n    import dask.array",
        2,
        "dask",
    ),
    "pickle": ("dtrainer/data/a.py", "import pickle\npickle.load(f)", 2, "pickle.load"),
    "pickle by another name": (
        "dtrainer/data/a.py",
        "import pickle as p\np.loads(f)",
        2,
        "pickle.loads",
    ),
    "pickle as a name": ("dtrainer/data/a.py", "from pickle import loads", 1, "pickle.loads"),
    "torch": ("dtrainer/data/a.py", "torch.load(f, weights_only=True)", 1, "torch.load"),
    "numpy": ("dtrainer/data/a.py", "\nnp.load(f, allow_pickle=True)", 2, "allow_pickle"),
    "numpy, computed": ("dtrainer/data/a.py", "np.load(f, allow_pickle=x)", 1, "allow_pickle"),
    "yaml": ("dtrainer/data/a.py", "yaml.load(f, Loader=yaml.Loader)", 1, "yaml.load"),
    "the mark elsewhere": ("dtrainer/cluster/a.py", f"pickle.loads(x)  {ITS_MARK}", 1, "pickle"),
    "no mark": ("dtrainer/cluster/wire.py", "pickle.loads(x)", 1, "pickle.loads"),
    "second mark": (
        "dtrainer/cluster/wire.py",
        f"pickle.loads(x)  {ITS_MARK}\npickle.loads(y)  {ITS_MARK}",
        2,
        "pickle.loads",
    ),
    "as_completed": ("dtrainer/cluster/a.py", "from distributed import as_completed", 1, "at once"),
    "wait": ("dtrainer/cluster/a.py", "import distributed\ndistributed.wait(f)", 2, "at once"),
    "gather": ("dtrainer/cluster/a.py", "self.client.gather(f)", 1, "at once"),
    "long file": ("dtrainer/data/a.py", "x = 1\n" * (FILE_LINES + 1), FILE_LINES + 1, "lines"),
    "long function": (
        "dtrainer/data/a.py",
        "\nasync def f():\n" + "    x = 1\n" * FUNCTION_LINES,
        2,
        "f has",
    ),
}


@pytest.mark.parametrize("case", VIOLATIONS)
def test_a_violation_is_found(case: str) -> None:
    file, text, line, words = VIOLATIONS[case]
    found = check(read({**SKELETON, file: text}))
    assert len(found) == 1, found
    assert found[0].startswith(f"{file}:{line}: ")
    assert words in found[0].split(" ", 1)[1]


ALLOWED = {
    "earlier room": ("dtrainer/rollout/a.py", "import dtrainer.envs, dtrainer.config"),
    "own room": ("dtrainer/data/a.py", "from . import batch\nfrom .batch import x"),
    "data and config": ("dtrainer/data/a.py", "from dtrainer.config import errors"),
    "cluster from the worker set": ("dtrainer/rollout/worker_set.py", "import dtrainer.cluster"),
    "everything from cli": (
        "dtrainer/cli/a.py",
        "\n".join(f"import dtrainer.{room}" for room in MAY_IMPORT),
    ),
    "the marked line": ("dtrainer/cluster/wire.py", f"pickle.loads(x)  {ITS_MARK}"),
    "safe readers": ("dtrainer/data/a.py", "np.load(f, allow_pickle=False)\nyaml.safe_load(f)"),
    "asyncio": ("dtrainer/cluster/a.py", "asyncio.gather(f)\nasyncio.wait(f)\nevent.wait(1)"),
    "creation": ("dtrainer/cluster/starting.py", "client.gather(futures)"),
    "long as can be": ("dtrainer/data/a.py", "x = 1\n" * FILE_LINES),
    "function as long as can be": (
        "dtrainer/data/a.py",
        'def f():\n    """A\n\n    B\n    """\n' + "    x = 1\n" * (FUNCTION_LINES - 1),
    ),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_is_allowed_is_not_reported(case: str) -> None:
    file, text = ALLOWED[case]
    assert check(read({**SKELETON, file: text})) == []


def test_heavy_packages_are_found_at_several_removes() -> None:
    sources = {
        **SKELETON,
        "dtrainer/rollout/worker.py": "from dtrainer.models import acting",
        "dtrainer/models/acting.py": "from dtrainer.data.columns import X",
        "dtrainer/data/__init__.py": "\nimport torch.nn",
        "dtrainer/data/columns.py": "try:\n    from distributed import Client\nfinally:\n    pass",
    }
    found = sorted(check(read(sources)))
    assert len(found) == 2
    assert found[0].startswith("dtrainer/data/__init__.py:2: ")
    assert "torch" in found[0] and "by way of dtrainer.models.acting" in found[0]
    assert found[1].startswith("dtrainer/data/columns.py:2: ")


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import torch",
        "if TYPE_CHECKING:\n    import torch",
        "class A:\n    async def f(self):\n        import distributed",
    ],
)
def test_heavy_packages_may_load_later(text: str) -> None:
    sources = {
        **SKELETON,
        "dtrainer/rollout/worker.py": "import dtrainer.data.batch",
        "dtrainer/data/batch.py": text,
        "dtrainer/training/trainer.py": "import torch",  # the worker does not import it
    }
    assert check(read(sources)) == []
