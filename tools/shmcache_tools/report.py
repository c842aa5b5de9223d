"""What ``doctor`` finds out: facts by topic, and findings with their remedy.

Owns those values. Must never know how a fact is found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``code`` is stable."""

    code: str
    message: str
    remedy: str


@dataclass(slots=True)
class Report:
    """What the checks found out: facts by topic, in order, and findings."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def find(self, code: str, message: str, remedy: str) -> None:
        """Adds a finding."""
        self.findings.append(Finding(code, message, remedy))
