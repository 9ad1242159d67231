"""Models behind servers in reports: requests, tokens, cost, and how answers ended."""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from pbcore.printable import counted
from pbcore.text import name

KINDS = {"empty": "empty", "length": "cut off", "refusal": "refused", "content_filter": "filtered"}


class ServerSection:
    """The section of reports (`report.cells.Section`)."""

    title = "Models behind servers"
    note = "Their seconds are wall-clock time of concurrent requests; cells with kept answers have none."

    def lines(self, cells: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
        """A line per model, from (model, `served` of a record) of each cell."""
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for model, told in cells:
            groups.setdefault(model, []).append(told)
        return [f"{name(model)}: {'; '.join(_facts(group))}" for model, group in groups.items()]


SECTION = ServerSection()


def _facts(cells: list[Mapping[str, Any]]) -> list[str]:
    servers = sorted({_server(told) for told in cells})
    ids = sorted({model for told in cells for model in told["models"]})
    dates = sorted({str(told[key])[:10] for told in cells for key in ("first_asked", "last_asked") if told[key]})
    asked, kept = (sum(told[key] for told in cells) for key in ("asked", "kept"))
    ends = sum((Counter(told["outcomes"]) for told in cells), Counter[str]())
    first = [told["first_token"] for told in cells if told["first_token"] is not None]
    return [
        f"{', '.join(map(name, ids)) or 'model id not reported'} at {', '.join(map(name, servers))}",
        *([f"{dates[0]} to {dates[-1]}" if len(dates) > 1 else dates[0]] if dates else []),
        f"{counted(asked, 'request')}, up to {max(told['concurrency'] for told in cells)} at once"
        + (f", {counted(kept, 'answer')} kept from an earlier run" if kept else ""),
        f"tokens {_total(cells, 'tokens_in')} in, {_total(cells, 'tokens_out')} out",
        *([f"first token after {median(first):.2f} s (median)"] if first else []),
        *([f"{_total(cells, 'cost', '.4f')} USD"] if any(told["cost"] is not None for told in cells) else []),
        *[f"{word} {ends[kind]:,}" for kind, word in KINDS.items() if ends[kind]],
    ]


def _server(told: Mapping[str, Any]) -> str:
    version = f" {told['version']}" if told["version"] else ""
    return f"{told['provider']} ({told['kind']}{version})"


def _total(cells: list[Mapping[str, Any]], key: str, form: str = ",") -> str:
    """The sum over cells; `–` if one of them doesn't have it."""
    values = [told[key] for told in cells]
    return "–" if any(value is None for value in values) else format(sum(values), form)
