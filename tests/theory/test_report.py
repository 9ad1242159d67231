import pytest

from pbcore.cli import main
from pbcore.theory.tables import report


class TestReport:
    def test_prints_the_closed_forms(self) -> None:
        """The figures of the paper for n = 4 stand in the tables."""
        text = report(4)
        for number in ("0.09375", "0.37500", "0.6226", "1.415", "0.42188"):
            assert number in text
        head = next(line for line in text.splitlines() if line.startswith("operation"))
        assert head.endswith("γ=0.97")
        assert (
            " ".join(head.split()[-10:])
            == "greedy k=1 greedy k=2 greedy k=3 greedy k=4 γ=0.6 γ=0.97"
        )

    def test_shows_both_readings_of_the_equality(self) -> None:
        """Beside tables that keep off γ = (n − 1)/n it says what happens there; two items have no
        such γ.
        """
        text = report(4)
        assert "At γ = 3/4 the accuracy of replace_random is 1 if confidences must exceed γ" in text
        assert "0 if they may equal it (the reference code), 0.93750 in the limit" in text
        assert "threshold-0.75 " not in text
        assert "At γ" not in report(2)

    def test_every_length_has_a_report(self) -> None:
        """From 2 items on; 1 has none."""
        assert [bool(report(n)) for n in (2, 3, 5, 16)] == [True] * 4
        with pytest.raises(ValueError, match="at least 2"):
            report(1)


class TestCommand:
    def test_it_prints_the_report(self, capsys: pytest.CaptureFixture[str]) -> None:
        """For lists of ten unless another length is given; what it can't print is named."""
        assert main(["figures", "theory"]) == 0
        assert capsys.readouterr().out == report(10) + "\n"
        assert main(["figures", "theory", "--n", "4"]) == 0
        assert capsys.readouterr().out == report(4) + "\n"
        assert main(["figures", "theory", "--n", "1"]) == 2
        assert "at least 2 items" in capsys.readouterr().err

    def test_too_long_lists_are_refused_at_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The longest length works; beyond it one line names the limit."""
        assert main(["figures", "theory", "--n", "200"]) == 0
        assert main(["figures", "theory", "--n", "100000"]) == 2
        assert "go up to n = 200" in capsys.readouterr().err
