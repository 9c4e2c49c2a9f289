"""The example programs, loaded from their files."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(path: str) -> ModuleType:
    """A new module of the file, with an Onbeat of its own."""
    spec = spec_from_file_location("shop", EXAMPLES / path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
