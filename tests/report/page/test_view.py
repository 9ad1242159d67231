"""`pbcore view`: the page of a run in a browser, served where it can't hold all answers."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.report.page import data, write, write_page
from pbcore.report.page.html import data_element
from pbcore.report.view import holds_all_answers, serve, serve_folder
from pbcore.results import RunDir, create
from pbcore.results.lock import lock_run
from pbcore.results.rundir import CorruptCellWarning
from tests.report.page.films import run
from tests.report.page.test_write import Reader, data_of
from tests.results import factory


@contextmanager
def served(*runs: Path) -> Iterator[str]:
    """The address of a page that is being served."""
    with running(serve(runs)) as address:
        yield address


@contextmanager
def running(started: ThreadingHTTPServer) -> Iterator[str]:
    """The address of a server that answers."""
    with started as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def get(address: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class TestServer:
    def test_answers_come_cell_by_cell(self, tmp_path: Path) -> None:
        """The page has no answers and may ask its own server alone; each cell's are there with
        their questions.
        """
        with served(run(tmp_path, n=4).path) as address:
            status, page = get(f"{address}/")
            assert status == 200
            assert "connect-src 'self'" in page
            assert 'id="answers"' not in page
            told = json.loads(get(f"{address}/samples/3.json")[1])
            assert [answer["index"] for answer in told["answers"]] == [0, 1, 2, 3]
            assert told["questions"]["of"].keys() == {"0", "1", "2", "3"}

    def test_a_page_that_is_there_is_served_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without reading the cells; each is read when it is asked for, with all its answers, wrong
        ones too.
        """
        made = run(tmp_path, n=40)
        monkeypatch.setattr(data, "LEAST", -1)
        monkeypatch.setattr(write, "SIZE", 0)
        assert not holds_all_answers(write_page(made.path))
        monkeypatch.setattr("pbcore.report.answers.report_cells", None)
        with served(made.path) as address:
            page = get(f"{address}/")[1]
            told = json.loads(get(f"{address}/samples/2.json")[1])
        assert "connect-src 'self'" in page
        assert f'<meta name="folder" content="{made.path}">' in page
        assert 'id="answers"' not in page
        assert len(told["answers"]) == 40
        assert sum(answer["wrong"] for answer in told["answers"]) == 20
        assert told["questions"]["of"]["39"]

    def test_a_page_of_other_cells_is_made_anew(self, tmp_path: Path) -> None:
        """As that of a run that went on, and one that is damaged."""
        made = run(tmp_path)
        file = write_page(made.path)
        whole = file.read_text()
        packed = data_element("page", {**data_of(whole), "cells": []})
        other = re.sub(r'<script type="[^"]*" id="page">[^<]*</script>\n', packed, whole)
        damaged = whole.replace('id="page">H4s', 'id="page">H4t')
        for text in (other, damaged, "x"):
            file.write_text(text)
            with served(made.path) as address:
                assert len(data_of(get(f"{address}/")[1])["cells"]) == 8

    def test_a_cell_of_any_name(self, tmp_path: Path) -> None:
        """Whose id the page shows otherwise than its file is called."""
        odd = factory.cell(n=3)
        made = factory.write(
            create(tmp_path, "a"), [(replace(odd[0], id="tiny/\x1b[31m/x"), odd[1])]
        )
        write_page(made.path)
        with served(made.path) as address:
            assert len(json.loads(get(f"{address}/samples/0.json")[1])["answers"]) == 3

    @pytest.mark.parametrize(
        "path", ["/samples/99.json", "/samples/x.json", "/../run.json", "/samples/0.json/..", "/x"]
    )
    def test_nothing_else(self, tmp_path: Path, path: str) -> None:
        """It reads no files of the run for whoever asks."""
        with served(run(tmp_path).path) as address:
            assert get(address + path)[0] == 404

    def test_other_hosts(self, tmp_path: Path) -> None:
        """A request under another name, as another site's page could send it, is refused."""
        with served(run(tmp_path).path) as address:
            assert get(f"{address}/", Host="example.org")[0] == 403

    @pytest.mark.parametrize("size", [0, 500])
    def test_a_truncated_cell_leaves_the_rest(
        self, tmp_path: Path, size: int, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Its own answers are refused with the file's name, all others are there; of a page that
        names the cell, too, and nothing is printed.
        """
        made = run(tmp_path)
        write_page(made.path)
        broken = sorted(made.cells_dir.glob("*.json"))[0]
        broken.write_text(broken.read_text()[:size])
        with served(made.path) as address:
            cells = data_of(get(f"{address}/")[1])["cells"]
            replies = [get(f"{address}/samples/{number}.json") for number in range(len(cells))]
        (said,) = (text for status, text in replies if status == 500)
        assert broken.name in said
        assert [status for status, _ in replies].count(200) == len(cells) - 1
        assert "Traceback" not in capfd.readouterr().err
        (made.path / "report.html").unlink()
        with pytest.warns(CorruptCellWarning):
            write_page(made.path)
        with served(made.path) as address:
            rest = data_of(get(f"{address}/")[1])["cells"]
            assert len(rest) == len(cells) - 1
            assert get(f"{address}/samples/0.json")[0] == 200

    def test_a_client_that_resets(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        """It prints nothing, and others are answered."""
        made = run(tmp_path)
        with served(made.path) as address:
            port = int(address.rpartition(":")[2])
            for _ in range(3):
                client = socket.create_connection(("127.0.0.1", port))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                client.close()  # reset
            client = socket.create_connection(("127.0.0.1", port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            assert get(f"{address}/")[0] == 200
        assert capfd.readouterr().err == ""

    @pytest.mark.parametrize(
        ("error", "printed"),
        [(ConnectionResetError, False), (BrokenPipeError, False), (KeyError, True)],
    )
    def test_only_errors_of_its_own_are_printed(
        self,
        tmp_path: Path,
        error: type[Exception],
        printed: bool,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """A connection that is gone is its client's matter; anything else has its traceback."""
        with serve([run(tmp_path).path]) as server:
            try:
                raise error("x")
            except error:
                server.handle_error(None, ("127.0.0.1", 1))
        assert ("Traceback" in capfd.readouterr().err) == printed

    def test_no_such_cell(self, tmp_path: Path) -> None:
        """Of a page that is served as it is."""
        made = run(tmp_path)
        write_page(made.path)
        with served(made.path) as address:
            assert get(f"{address}/samples/7.json")[0] == 200
            assert get(f"{address}/samples/8.json")[0] == 404

    def test_a_port_that_is_taken(self, tmp_path: Path) -> None:
        """It is named, with what to do."""
        made = run(tmp_path)
        with (
            serve([made.path]) as first,
            pytest.raises(ValueError, match=r"--port \d+ can't be used .*leave it out"),
        ):
            serve([made.path], first.server_port)

    def test_several_runs(self, tmp_path: Path) -> None:
        """Runs stand side by side, each with its own answers."""
        runs = [run(tmp_path, name).path for name in "ab"]
        with served(*runs) as address:
            page = get(f"{address}/")[1]
        assert "tiny of a" in page
        assert "tiny of b" in page


class TestFolder:
    @pytest.fixture
    def listed(self, tmp_path: Path) -> Iterator[tuple[str, Path]]:
        """The address of the list of a folder with two runs, and the folder."""
        for name in ("older", "new & <b>er"):
            write_page(run(tmp_path, name).path)
        for day, name in enumerate(("older", "new & <b>er"), 1):
            RunDir(tmp_path / name).write_run({"started": f"2026-01-0{day}T03:04:05+00:00"})
        with running(serve_folder(tmp_path)) as address:
            yield address, tmp_path

    def test_the_list(self, listed: tuple[str, Path]) -> None:
        """Newest first, with what each measured, its verdict and its cells; names are text."""
        words = " ".join(" ".join(Reader(get(f"{listed[0]}/")[1]).text).split())
        new, old = words.index("new & <b>er 2026-01-02"), words.index("older 2026-01-01")
        assert new < old
        line = words[old:]
        what = "ideal and tiny · 2 samplers · 2 tasks"
        assert f"{what} confidence-k2, threshold-0.9 ideal: no winner" in line
        assert "8 of 8" in line

    def test_a_run_of_the_list(self, listed: tuple[str, Path]) -> None:
        """Its page, with the answers of its cells."""
        address, _ = listed
        page = get(f"{address}/run/new%20%26%20%3Cb%3Eer/")[1]
        assert len(data_of(page)["cells"]) == 8
        status, told = get(f"{address}/run/older/samples/3.json")
        assert status == 200
        assert len(json.loads(told)["answers"]) == 6

    def test_two_runs_are_compared(self, listed: tuple[str, Path]) -> None:
        """The newer with the older, whatever their order; another number of them is refused."""
        address, _ = listed
        reply = get(f"{address}/compare?run=older&run=new+%26+%3Cb%3Eer")
        text = " ".join(" ".join(Reader(reply[1]).text).split())
        assert "new & <b>er against older" in text
        assert "8 cells compared" in text
        assert get(f"{address}/compare?run=older")[0] == 400

    def test_several_side_by_side(self, listed: tuple[str, Path]) -> None:
        """Three runs, one of them below a folder, on one page with the answers of each."""
        address, folder = listed
        write_page(run(folder / "paper-tiny", "shard-1").path)
        marked = "run=older&run=paper-tiny%2Fshard-1&run=new+%26+%3Cb%3Eer"
        page = get(f"{address}/beside/?{marked}")[1]
        models = {cell["model"] for cell in data_of(page)["cells"]}
        assert {name.partition(" of ")[2] for name in models} == {
            "older",
            "shard-1",
            "new & <b>er",
        }
        status, told = get(f"{address}/beside/samples/20.json?{marked}")
        assert status == 200
        assert len(json.loads(told)["answers"]) == 6
        assert get(f"{address}/beside/?run=older")[0] == 400
        assert get(f"{address}/beside/samples/99.json?{marked}")[0] == 404

    def test_a_run_below_a_folder(self, listed: tuple[str, Path]) -> None:
        """It is listed by its path, and its page is there."""
        address, folder = listed
        write_page(run(folder / "paper-tiny", "shard-1").path)
        assert 'href="/run/paper-tiny%2Fshard-1/"' in get(f"{address}/")[1]
        assert len(data_of(get(f"{address}/run/paper-tiny%2Fshard-1/")[1])["cells"]) == 8
        assert get(f"{address}/run/paper-tiny%2Fshard-1/samples/3.json")[0] == 200
        assert get(f"{address}/run/paper-tiny/")[0] == 404

    def test_samplers_and_gate(self, listed: tuple[str, Path]) -> None:
        """They stand in the list; a failed gate is marked."""
        address, folder = listed
        RunDir(folder / "older").write_run({"gate": ["gate FAILED: <i>"], "gate_failed": True})
        text = get(f"{address}/")[1]
        assert text.count("<code>confidence-k2, threshold-0.9</code>") == 2
        assert 'class="text failed" data-head="gate">gate FAILED: &lt;i&gt;' in text
        assert text.count('class="text failed"') == 1

    @pytest.mark.parametrize(
        "path", ["/run/none/", "/run/../older/", "/run/%2e%2e/", "/run/older/run.json", "/run//"]
    )
    def test_nothing_else(self, listed: tuple[str, Path], path: str) -> None:
        assert get(listed[0] + path)[0] == 404

    def test_it_follows_the_folder(self, listed: tuple[str, Path]) -> None:
        """A run that has begun stands in the list, and its cells as they are done."""
        address, folder = listed
        made = create(folder, "next")
        made.write_run({"planned": {"cells": 3, "models": ["tiny"], "samplers": 3, "tasks": 1}})
        lock = lock_run(made.path)
        seen = []
        for done in range(2):
            words = " ".join(Reader(get(f"{address}/")[1]).text)
            seen.append(f"{done} of 3" in words)
            assert "tiny · 3 samplers · 1 task" in words
            assert "(running)" in words
            made.write_cell(*factory.cell(sampler=f"random-k{done + 1}"))
        assert seen == [True, True]
        lock.release()
        assert "(stopped)" in get(f"{address}/")[1]


class TestCommand:
    def test_without_a_run_all_are_listed(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Those in reports/; a folder without one is named, and options of one run are refused."""
        monkeypatch.chdir(tmp_path)
        assert main(["view", "--no-open"]) == 2
        assert "reports holds no run directory" in capsys.readouterr().err
        run(tmp_path / "reports")
        monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", lambda server: None)
        assert main(["view", "--no-open"]) == 0
        assert capsys.readouterr().out.startswith("http://127.0.0.1:")
        assert main(["view", "--axis", "seconds"]) == 2
        assert "give RUN" in capsys.readouterr().err

    def test_a_folder_with_runs_is_listed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As those of a cluster's job; a folder without any is named."""
        run(tmp_path / "paper" / "x", "shard-1")
        monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", lambda server: None)
        assert main(["view", str(tmp_path / "paper"), "--no-open"]) == 0
        assert capsys.readouterr().out.startswith("http://127.0.0.1:")
        (tmp_path / "empty").mkdir()
        assert main(["view", str(tmp_path / "empty"), "--no-open"]) == 2
        assert "empty holds no results: neither cells/" in capsys.readouterr().err

    def test_a_page_with_all_answers_is_opened_itself(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The file opens in the browser, and is made where it is missing."""
        opened: list[str] = []
        monkeypatch.setattr(webbrowser, "open", opened.append)
        made = run(tmp_path)
        assert main(["view", str(made.path)]) == 0
        file = made.path / "report.html"
        assert holds_all_answers(file)
        assert opened == [file.resolve().as_uri()]
        assert main(["view", str(made.path), "--no-open"]) == 0
        assert len(opened) == 1
        assert capsys.readouterr().out.splitlines() == [file.resolve().as_uri()] * 2

    def test_a_page_that_leaves_answers_out_is_not_complete(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its run is served."""
        monkeypatch.setattr(data, "LEAST", -1)
        monkeypatch.setattr(write, "SIZE", 0)
        assert not holds_all_answers(write_page(run(tmp_path, n=100).path))

    def test_several_runs_are_served_until_ctrl_c(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The browser opens the address that is printed, which answers; Ctrl-C ends the server and
        the command.
        """
        opened: list[str] = []
        monkeypatch.setattr(webbrowser, "open", opened.append)

        def interrupted(server: ThreadingHTTPServer) -> None:
            threading.Thread(target=server.handle_request).start()
            assert get(opened[0])[0] == 200
            raise KeyboardInterrupt

        monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", interrupted)
        assert main(["view", *(str(run(tmp_path, name).path) for name in "ab")]) == 0
        assert capsys.readouterr().out.splitlines() == [opened[0], "Ctrl-C ends it"]
        with pytest.raises(urllib.error.URLError):
            get(opened[0])

    def test_a_page_that_takes_a_while(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Its size is told first."""
        made = run(tmp_path)
        for number in range(93):
            (made.path / "cells" / f"x{number}.json").write_text("{")
        monkeypatch.setattr(
            "pbcore.report.page.write_page", lambda path: write_page(run(tmp_path / "b").path)
        )
        monkeypatch.setattr("pbcore.cli.view.holds_all_answers", lambda file: True)
        assert main(["view", str(made.path), "--no-open"]) == 0
        assert capsys.readouterr().err == "reading 101 cells …\n"

    def test_a_run_that_is_being_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Its page is served, nothing is written into it, and it shows each cell that is done;
        without one that is said.
        """
        made = run(tmp_path)
        cells = sorted(made.cells_dir.iterdir())
        for cell in cells[1:]:
            cell.rename(tmp_path / cell.name)
        lock = lock_run(made.path)
        counts = []

        def interrupted(server: ThreadingHTTPServer) -> None:
            for cell in cells[:3]:
                if not cell.exists():
                    (tmp_path / cell.name).rename(cell)
                threading.Thread(target=server.handle_request).start()
                page = get(f"http://127.0.0.1:{server.server_port}/")[1]
                counts.append(len(data_of(page)["cells"]))
            raise KeyboardInterrupt

        monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", interrupted)
        assert main(["view", str(made.path), "--no-open"]) == 0
        assert counts == [1, 2, 3]
        assert not (made.path / "report.html").exists()
        for cell in cells[:3]:
            cell.unlink()
        assert main(["view", str(made.path), "--no-open"]) == 2
        assert "has no finished cell yet" in capsys.readouterr().err
        lock.release()

    def test_a_page_that_lacks_cells_is_made_anew(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As one that was written before its run was resumed."""
        made = run(tmp_path)
        cell = min(made.cells_dir.iterdir())
        away = cell.rename(tmp_path / cell.name)
        write_page(made.path)
        away.rename(cell)
        assert main(["view", str(made.path), "--no-open"]) == 0
        assert len(data_of((made.path / "report.html").read_text())["cells"]) == 8

    def test_unusable_input(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """What is no run is named, with exit status 2."""
        assert main(["view", str(tmp_path / "none")]) == 2
        assert "none does not exist" in capsys.readouterr().err
