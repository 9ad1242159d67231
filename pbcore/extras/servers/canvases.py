"""The canvases of an answer, as a server streams them, and the steps that they show."""

from collections.abc import Sequence


class Canvases:
    """What is known of a canvas after each forward: its tokens so far, and since which forward each
    place has its token. `forwards` is the number of the last one.
    """

    def __init__(self) -> None:
        self.forwards: int | None = None
        self._tokens: list[int] = []
        self._steps: list[int] = []

    def add(self, start: int, tokens: Sequence[int], forwards: int | None) -> None:
        """The canvas after so many forwards.

        Args:
            start: its first place in the answer.
            tokens: its ids.
            forwards: how many there have been.

        Raises:
            ValueError: for a canvas that doesn't follow from those before.
        """
        if forwards is None:
            raise ValueError("a canvas without its number of forwards (nfe)")
        if self.forwards is not None and forwards < self.forwards:
            raise ValueError(
                f"a canvas after {forwards} forwards follows one after {self.forwards}"
            )
        if start > len(self._tokens):
            raise ValueError(
                f"a canvas begins at place {start}, and only {len(self._tokens)} places came before"
            )
        self.forwards = forwards
        for place, token in enumerate(tokens, start):
            if place == len(self._tokens):
                self._tokens.append(token)
                self._steps.append(forwards)
            elif self._tokens[place] != token:
                self._tokens[place] = token
                self._steps[place] = forwards

    def steps(self, answer: Sequence[int], forwards: int) -> tuple[int, ...]:
        """The forward, from 1, that gave each token of the answer.

        An answer that was cut off comes without the masks that its last canvas has. Where the last
        canvas isn't told, what it would have changed comes from the last forward.

        Args:
            answer: its ids.
            forwards: of the whole answer.

        Raises:
            ValueError: for an answer with fewer forwards than its canvases.
        """
        places = self._places(answer)
        if places is not None:
            return tuple(self._steps[place] for place in places)
        self.add(0, answer, forwards)
        return tuple(self._steps[: len(answer)])

    def _places(self, answer: Sequence[int]) -> Sequence[int] | None:
        """Where the tokens of the answer stand on the last canvas; None if it is another one."""
        wanted = list(answer)
        if self._tokens[: len(wanted)] == wanted:
            return range(len(wanted))
        for mask in sorted(set(self._tokens) - set(wanted)):
            places = [place for place, token in enumerate(self._tokens) if token != mask]
            if [self._tokens[place] for place in places[: len(wanted)]] == wanted:
                return places[: len(wanted)]
        return None
