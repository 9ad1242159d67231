"""Replies of Diffulex, in the forms of its own schemas (`diffulex/server/protocol.py`,
`api_server.py`, `serving_worker.py`), and a server that decodes with a small model.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pbcore
from pbcore.models import load_model
from tests.extras.servers.fake import Act, Script

PROMPT = 10  # tokens, of which the absolute places tell


def snapshot(ids: Sequence[int], nfe: int, text: str = "…", start: int = 0) -> dict[str, Any]:
    """The canvas after a forward."""
    begin = PROMPT + start
    return {
        "event": "buffer_snapshot",
        "id": "diffulex-1",
        "token_offset": start,
        "absolute_start": begin,
        "absolute_end": begin + len(ids),
        "text": text,
        "token_ids": list(ids),
        "nfe": nfe,
        "finished": False,
    }


def final(
    text: str, ids: Sequence[int], nfe: int, finish: str | None = "eos_token_generated"
) -> dict[str, Any]:
    """The last event, or without its kind the whole reply."""
    return {
        "id": "diffulex-1",
        "text": text,
        "token_ids": list(ids),
        "nfe": nfe,
        "finish_reason": finish,
        "full_text": text,
        "full_token_ids": list(ids),
        "engine_decode_time_s": 0.25,
        "engine_decode_tokens": len(ids),
        "engine_decode_tps": len(ids) / 0.25,
        "event": "final",
    }


def decoding(model_name: str, sampler: str) -> Script:
    """Decodes the ids that it is asked for, and tells every canvas."""
    model: Any = load_model(model_name)
    one_at_a_time = threading.Lock()

    def script(number: int, body: dict[str, Any]) -> Act:
        length = body["max_tokens"]
        with one_at_a_time:
            answer = pbcore.decode(
                model, [body["prompt"]], sampler, max_new_tokens=length, record=True
            )[0]
        _, *canvases = answer.trajectory
        ids = list(answer.token_ids)
        end = ids.index(model.eos_id) if model.eos_id in ids else len(ids)
        snapshots = [snapshot(canvas, place) for place, canvas in enumerate(canvases, 1)]
        finish = "max_new_tokens_reached" if end == len(ids) else "eos_token_generated"
        last = final(answer.text, ids[: end + 1], answer.nfe, finish)
        return Act(events=(*snapshots, last))

    return script
