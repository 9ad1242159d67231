"""pbcore.tasks.files: JSON Lines as other projects write them."""

from __future__ import annotations

import json
from pathlib import Path

from pbcore.tasks.files import read_json_lines


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    """Rows may hold U+2028 and U+0085 as they are; blank lines count, but have no value."""
    file = tmp_path / "samples.jsonl"
    rows = [{"doc_id": number, "answer": "a\u2028b\u0085c\x1e"} for number in range(2)]
    file.write_text(
        "\n \r\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8"
    )
    assert list(read_json_lines(file)) == [(1, rows[0]), (3, rows[1])]
