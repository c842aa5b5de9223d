"""``python -m tests.differential [llguidance|xgrammar] [schemas] [skip]``: compares over the schemas of MaskBench.

Prints what was found: differences by verdict, those that are mistakes of this package in full.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.differential.comparison import compare_schema
from tests.differential.engines import Engine, Llguidance, Ours, Xgrammar
from tests.differential.judge import Verdict
from tests.differential.vocabulary import VOCABULARY
from tests.survey.survey import MASKBENCH, cases, name_of


def main() -> None:
    name, count, skip = [*sys.argv[1:], *["llguidance", "100", "0"][len(sys.argv) - 1 :]]
    ours = Ours(VOCABULARY)
    theirs: Engine = Xgrammar(VOCABULARY) if name == "xgrammar" else Llguidance(VOCABULARY)
    counts: Counter[Verdict] = Counter()
    refused: Counter[str] = Counter()
    steps = agreeing = compared = 0
    start = time.perf_counter()
    for number, case in enumerate(cases(MASKBENCH)):
        if not int(skip) <= number < int(skip) + int(count):
            continue
        valid = [test["data"] for test in case["tests"] if test["valid"]][:2]
        report = compare_schema(case["schema"], valid, ours, theirs, seed=number)
        refused.update(report.refused.keys())
        compared += not report.refused
        counts.update(report.counts())
        steps += report.steps
        agreeing += report.agreeing
        for finding in report.findings:
            if finding.verdict.is_ours or finding.verdict is Verdict.UNDECIDED:
                say(f"{number} {name_of(case)}: {finding.describe()}")
    seconds = time.perf_counter() - start
    say(f"{compared} schemas, refused by {dict(refused)}; {steps} steps, {agreeing} equal masks; {seconds:.0f} s")
    for verdict, found in counts.most_common():
        say(f"  {found:6} {verdict.value}")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
