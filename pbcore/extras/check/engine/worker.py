"""The process in which an engine runs: reads a case per line, writes its answers.

What the engine prints goes to stderr; answers go to the descriptor that stdout was.
"""

import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pbcore.extras.check.engine.setting import Setting

OWN = "pbcore"  # this package's own engine; `pbcore@cuda` on a device


def is_own(name: str) -> bool:
    """Whether an engine is this package's, on whichever device."""
    return name.partition("@")[0] == OWN


def load_engine(name: str) -> Callable[..., Any]:
    """The function of an engine: `pbcore`, `pbcore@cuda`, `FILE.py` (its `generate`) or
    `module:function`. Raises what importing it raises, AttributeError for one without the function,
    and ModelError for an unknown device.

    Args:
        name: as given.
    """
    if is_own(name):
        from pbcore.extras.check.engine.own import engine

        return engine(name.removeprefix(OWN).removeprefix("@"))
    if name.endswith(".py"):
        path = Path(name).resolve()
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        attribute = "generate"
    else:
        sys.path.insert(0, os.getcwd())
        module_name, _, attribute = name.partition(":")
        module = importlib.import_module(module_name)
    function: Callable[..., Any] = getattr(module, attribute or "generate")
    return function


def main() -> None:
    """Answers cases until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(**said: Any) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    try:
        generate = load_engine(sys.argv[1])
    except BaseException as error:  # noqa: BLE001  whatever the engine's own code raises
        traceback.print_exc()
        tell(broken=_said(error))
        return
    tell(ready=True)
    for line in sys.stdin:
        case = json.loads(line)
        kept = case["setting"]
        setting = Setting(**{**kept, "eos_ids": tuple(kept["eos_ids"])})
        try:
            given = generate(case["checkpoint"], case["prompts"], setting)
            tell(answers=_plain(given))
        except NotImplementedError as error:
            tell(skipped=str(error))
        except Exception as error:  # noqa: BLE001  whatever an engine raises fails its case
            traceback.print_exc()
            tell(raised=_said(error))


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _plain(given: Any) -> Any:
    """What an engine returned, as JSON: tensors and arrays as lists, other types by their names."""
    if hasattr(given, "tolist"):
        return _plain(given.tolist())
    if isinstance(given, dict):
        return {str(key): _plain(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [_plain(each) for each in given]
    if given is None or isinstance(given, bool | int | float | str):
        return given
    if hasattr(given, "__index__"):
        return int(given)
    return {"type": type(given).__name__}


if __name__ == "__main__":
    main()
