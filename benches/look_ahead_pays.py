"""How many canvases of `+ahead` pay on GPUs, by their computed prices, and what they save:

    python -m benches.look_ahead_pays [--price h200 --price a100] [--sampler eb-0.1]

A row for each device, kind of model and batch: the number with the fewest seconds, its seconds as a
share of those of the sampler alone, and what four rows cost beside one. The calls that are saved
are those of pbcore/prices/data/look_ahead.yaml.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from pbcore.base.tabular import MarkdownText, Table, Value, markdown
from pbcore.prices import price_list
from pbcore.prices.look_ahead import canvases_that_pay, seconds_of, usual_call

MODELS = (("llada-8b", "whole canvases", None), ("sdar-8b", "blocks of 4", 4))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--price", action="append", help="default: h200, a100")
    parser.add_argument("--sampler", default="eb-0.1")
    options = parser.parse_args(arguments)
    heads = ["price list", "model", "batch", "canvases that pay", "seconds", "four rows cost"]
    rows: list[list[Value]] = []
    for device in options.price or ["h200", "a100"]:
        for model, kind, block in MODELS:
            prices = price_list(device, model)
            call = usual_call(block)
            for batch in (1, 32):
                number = canvases_that_pay(prices, options.sampler, call, batch)
                seconds = seconds_of(prices, options.sampler, call, batch)
                four = prices.call_seconds(replace(call, rows=4), batch)
                row: list[Value] = [f"{prices.name} ({prices.basis})"]
                row += [MarkdownText(f"`{model}`, {kind}"), batch, str(number or "none")]
                row += [seconds[number] / seconds[0]]
                row += [f"{four / prices.call_seconds(call, batch):.1f} times one"]
                rows.append(row)
    print(markdown(Table(heads, rows, "llrrrr", ".2f")))


if __name__ == "__main__":
    main()
