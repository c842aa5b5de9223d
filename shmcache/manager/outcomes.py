"""How a compile ends for those who wait for it.

Owns what waiters are told, what is remembered of it, and when a source is let go. Must never know workers or time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmcache.errors import LimitError
from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager.compiles import Compile, Compiles, Waiter
from shmcache.manager.entries import ANY_GENERATION, Entries
from shmcache.manager.refusals import Refusals, is_deterministic
from shmcache.memory.layout import REFUSAL_CODES

KEY_MISMATCH = "KEY_MISMATCH"
"""Code of a job whose source does not have the key that was asked for: the fault of whoever sent the source."""

ASK_AGAIN = "ASK_AGAIN"

VOCABULARY_MISSING = "VOCABULARY_MISSING"

CANCELLED = "CANCELLED"
"""Code of a job that its worker gave up because it was told to."""

NO_REFUSALS = frozenset({ASK_AGAIN, VOCABULARY_MISSING})
"""Answers that make a client go on in another way, and that its caller never hears of."""


def plain_error(code: str, message: str) -> dict[str, Any]:
    """An error without details, in plain form."""
    return {"code": code, "message": message, "details": {}}


class Outcomes:
    """Ends compiles: with an image, with an error of their own, or for a reason outside of them."""

    def __init__(
        self, compiles: Compiles, refusals: Refusals, entries: Entries, emit: Callable[[fx.Effect], None]
    ) -> None:
        self._compiles = compiles
        self._refusals = refusals
        self._entries = entries
        self._emit = emit

    def deliver(self, compile_: Compile, event: ev.CommitAsked, outcome: str) -> None:
        """The waiters get the image just committed; only a ``ready`` one has a serial."""
        ended = "fenced" if outcome == "fenced" else "succeeded"
        self._note_end(compile_, ended, cost_us=event.cost_us, payload_bytes=event.payload_bytes)
        serial = event.serial if outcome == "ready" else 0
        for waiter in self._conclude(compile_):
            self._emit(
                fx.SendImage(
                    client=waiter.client,
                    request=waiter.request,
                    key=compile_.key,
                    generation=compile_.generation,
                    serial=serial,
                    payload_bytes=event.payload_bytes,
                    image=event.image,
                )
            )

    def refuse_all(self, compile_: Compile, error: ev.PlainError) -> None:
        """Tells the waiters, but for those whom a compile under larger limits may still serve."""
        self._note_end(compile_, "refused" if is_deterministic(error) else "failed", code=error["code"])
        if compile_.generation in (self._entries.generation, ANY_GENERATION):
            self._refusals.remember(compile_.key, error, compile_.limits)
        waiters = self._compiles.conclude(compile_)
        for place, waiter in enumerate(waiters):
            if error["code"] == LimitError.code and not compile_.limits.covers(waiter.limits):
                again = self._compiles.find(compile_.tier, compile_.key, compile_.generation)
                if again is None:
                    again = self._compiles.reopen(compile_, waiter.limits)
                self._compiles.join(again, waiter)
            elif error["code"] == KEY_MISMATCH and place > 0:
                self.refuse(waiter, plain_error(ASK_AGAIN, "another client sent a false source under this key"))
            else:
                self.refuse(waiter, error)
        if self._compiles.find(compile_.tier, compile_.key, compile_.generation) is None:
            self._emit(fx.DropSource(compile_.source))

    def fail(self, compile_: Compile, error: ev.PlainError) -> None:
        """Ends a compile for a reason that lies outside it."""
        self._note_failure(compile_, error["code"])
        for waiter in self._conclude(compile_):
            self.refuse(waiter, error)

    def cancel(self, compile_: Compile) -> None:
        """Ends a compile that nobody waits for any more."""
        self._note_failure(compile_, CANCELLED)
        self._conclude(compile_)

    def refuse(self, waiter: Waiter, error: ev.PlainError) -> None:
        """Answers one request with an error."""
        if error["code"] not in NO_REFUSALS:
            code = error["code"] if error["code"] in REFUSAL_CODES else "OTHER"
            self._emit(fx.Count(f"refused_{code}"))
        self._emit(fx.SendRefusal(waiter.client, waiter.request, error))

    def _conclude(self, compile_: Compile) -> list[Waiter]:
        self._emit(fx.DropSource(compile_.source))
        return self._compiles.conclude(compile_)

    def _note_failure(self, compile_: Compile, code: str) -> None:
        # One that never started does not count as started either.
        if compile_.attempts:
            self._note_end(compile_, "failed", code=code)

    def _note_end(
        self, compile_: Compile, outcome: str, *, code: str = "", cost_us: int = 0, payload_bytes: int = 0
    ) -> None:
        self._emit(
            fx.CompileEnded(
                tier=compile_.tier,
                key=compile_.key,
                generation=compile_.generation,
                outcome=outcome,
                waiters=len(compile_.waiters),
                asked_at=compile_.asked_at,
                code=code,
                cost_us=cost_us,
                payload_bytes=payload_bytes,
            )
        )
