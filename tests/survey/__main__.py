"""The whole survey: ``python -m tests.survey [part of a name]``. Fails when an instance was judged wrongly."""

from __future__ import annotations

import sys

from tests.survey.survey import (
    MASKBENCH,
    TEST_SUITE,
    WRONG,
    cases,
    is_known_exception,
    judge,
    name_of,
    summary,
)


def main(wanted: str) -> int:
    """Surveys both collections and returns the exit code."""
    wrong_count = 0
    for path in (MASKBENCH, TEST_SUITE):
        verdicts = [judge(case, is_known_exception) for case in cases(path) if wanted in name_of(case)]
        wrong_count += sum(verdict.kind == WRONG for verdict in verdicts)
        sys.stdout.write(f"{path.name}: {summary(verdicts)}\n")
    return 1 if wrong_count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
