"""Automata over the decimal spellings of the multiples of a number.

Owns divisibility of a number read digit by digit. Must never know a schema. Spellings are those without exponent, of
any length; integers may be followed by a point and zeros.
"""

from __future__ import annotations

from decimal import Decimal

from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa, Edge, minimise, trim

_MINUS, _POINT, _ZERO = ord("-"), ord("."), ord("0")


def multiples(divisor: Decimal, budget: Budget) -> Dfa:
    """The spellings of all multiples of ``divisor``, which is above 0.

    With the divisor written as ``factor * 10**power``, ``factor`` not a multiple of 10, the automaton has about
    ``factor * (1 + abs(power))`` states before it is made minimal.
    """
    sign, digits, exponent = divisor.as_tuple()
    assert not sign
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    factor = int(text.rstrip("0"))
    power = exponent + len(text) - len(text.rstrip("0"))
    budget.spend_states(3 + factor * (1 + abs(power)))
    return _Multiples(factor, max(power, 0), max(-power, 0), budget).automaton()


class _Multiples:
    """Explores (phase, remainder, count).

    The digits read, without the last ``count`` zeros (``count`` at most ``zeros``), leave ``remainder``. The number
    read is a multiple when the remainder is 0 and ``count`` is ``zeros``; in a fraction of ``places`` digits at most,
    ``count`` is the digits read, and those missing count as zeros.
    """

    def __init__(self, factor: int, zeros: int, places: int, budget: Budget) -> None:
        self._factor, self._zeros, self._places, self._budget = factor, zeros, places, budget
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._states: list[tuple[str, int, int]] = []

    def automaton(self) -> Dfa:
        self._number(("start", 0, 0))
        rows: list[list[Edge]] = []
        for state in self._states:  # grows while it is walked
            rows.append(self._row(*state))
            self._budget.spend_edges(len(rows[-1]))
        return minimise(trim(rows, [self._accepts(*state) for state in self._states]), self._budget)

    def _number(self, state: tuple[str, int, int]) -> int:
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _row(self, phase: str, remainder: int, count: int) -> list[Edge]:
        row: list[Edge] = []
        if phase == "start":
            row.append((_MINUS, _MINUS, self._number(("sign", 0, 0))))
        if phase in ("zero", "whole") and (self._places or self._is_multiple(phase, remainder, count)):
            row.append((_POINT, _POINT, self._number(("point", remainder, 0))))
        for digit in range(10):
            target = self._after_digit(phase, remainder, count, digit)
            if target is not None:
                row.append((_ZERO + digit, _ZERO + digit, self._number(target)))
        return sorted(row)

    def _after_digit(self, phase: str, remainder: int, count: int, digit: int) -> tuple[str, int, int] | None:
        if phase in ("start", "sign") and digit == 0:
            return "zero", 0, 0
        if phase in ("start", "sign", "whole"):
            if digit == 0 and count < self._zeros:
                return "whole", remainder, count + 1
            return "whole", self._appended(remainder, count, digit), 0 if digit else count
        if phase in ("point", "fraction"):
            if count < self._places:
                return "fraction", self._appended(remainder, 0, digit), count + 1
            return ("fraction", remainder, count) if digit == 0 else None
        return None

    def _appended(self, remainder: int, count: int, digit: int) -> int:
        """The remainder once the zeros set aside and one more digit belong to the number; a zero is set aside again."""
        if digit == 0:
            return remainder * 10 % self._factor
        return (remainder * pow(10, count + 1, self._factor) + digit) % self._factor

    def _is_multiple(self, phase: str, remainder: int, count: int) -> bool:
        if phase == "zero":
            return True
        if phase == "whole":
            scaled = remainder * pow(10, self._places, self._factor) % self._factor
            return scaled == 0 and count == self._zeros
        return remainder * pow(10, self._places - count, self._factor) % self._factor == 0

    def _accepts(self, phase: str, remainder: int, count: int) -> bool:
        return phase in ("zero", "whole", "fraction") and self._is_multiple(phase, remainder, count)
