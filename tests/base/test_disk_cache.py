"""Texts kept in a SQLite file."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from pbcore.base.disk_cache import DiskCache


def cache_in(folder: Path) -> DiskCache:
    return DiskCache(folder / "c.sqlite", "verdicts", "grammar verdicts")


class TestDiskCache:
    def test_holds_across_objects(self, tmp_path: Path) -> None:
        """What one process puts, another gets, the last text of a key; unknown keys are left
        out.
        """
        cache_in(tmp_path).put({"a": "first", "b": ""})
        cache_in(tmp_path).put({"a": "ü"})
        assert cache_in(tmp_path).get(["a", "b", "z"]) == {"a": "ü", "b": ""}

    def test_holds_many(self, tmp_path: Path) -> None:
        """As many as a run has answers."""
        cache = cache_in(tmp_path)
        cache.put({str(number): "" for number in range(1203)})
        assert len(cache.get(map(str, range(1300)))) == len(cache) == 1203

    @pytest.mark.posix
    def test_a_forked_child_can_use_it(self, tmp_path: Path) -> None:
        """SQLite's connections don't survive a fork."""
        cache = cache_in(tmp_path)
        cache.put({"parent": ""})
        child = os.fork()
        if child == 0:
            cache.put({"child": ""})
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert cache.get(["parent", "child"]).keys() == {"parent", "child"}

    def test_an_unusable_file_is_warned_about_and_left_alone(self, tmp_path: Path) -> None:
        """A broken cache costs speed, never a run, and says once which file to remove."""
        path = tmp_path / "c.sqlite"
        path.write_bytes(b"not a database, but long enough to be read as the header of one" * 20)
        cache = cache_in(tmp_path)
        with pytest.warns(
            UserWarning, match=r"verdicts are not.*c\.sqlite can't be used.*Remove it"
        ):
            assert cache.get(["a"]) == {}
        cache.put({"a": ""})
        assert cache.get(["a"]) == {}
        assert len(cache) == 0
        with pytest.raises(sqlite3.DatabaseError):
            sqlite3.connect(path).execute("SELECT 1 FROM verdicts")
