"""Recall, precision of the code named first, and false alarms of ``rootdk.identify``.

From the repository's root, with PyTorch and JAX installed::

    PYTHONPATH=src:tests python bench/identify_recall.py [--framework torch] [--only RDK40] [-v]

Every function of ``tests/faults_identify`` is identified as its author would do it. A fault is
*found* when a finding of any severity has a code that is true of it, and *named* when its own
code stands first. A *false alarm* is a finding about a sound function that is not one of the
notes that are true of it; *further* findings about a fault are listed with ``-v``.
"""

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from faults_identify.cases import CASES, identified
from faults_identify.registry import Case

IN_HALF = ("RDK304", "RDK307")
"""Notes that are true of every function that computes in its input's half precision."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What identify said of one case, in how many processor seconds."""

    case: Case
    codes: tuple[str, ...]
    severities: tuple[str, ...]
    seconds: float
    error: str = ""

    @property
    def found(self) -> bool:
        return bool({self.case.code, *self.case.also} & set(self.codes))

    @property
    def named(self) -> bool:
        return self.codes[:1] == (self.case.code,)

    @property
    def further(self) -> tuple[str, ...]:
        """Codes that are not known to be true; for a sound function, alarms."""
        known = {self.case.code, *self.case.also, *IN_HALF}
        bar = ("note",) if self.case.code is None else ("note", "warning", "error")
        pairs = zip(self.codes, self.severities, strict=True)
        return tuple(code for code, severity in pairs if code not in known or severity not in bar)


def outcome(case: Case) -> Outcome:
    start = time.process_time()
    error, findings = "", ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            findings = identified(case).findings
    except Exception as raised:  # noqa: BLE001  a crash is a row of the table
        error = f"{type(raised).__name__}: {raised}".splitlines()[0]
    return Outcome(
        case=case,
        codes=tuple(finding.code for finding in findings),
        severities=tuple(finding.severity.value for finding in findings),
        seconds=time.process_time() - start,
        error=error,
    )


def table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """The lines of a Markdown table, one code a row."""
    rows: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        if one.case.code is not None:
            rows[one.case.code].append(one)
    yield "| code | functions | found | named first | missed or misnamed |"
    yield "|---|---|---|---|---|"
    for code, group in sorted(rows.items()):
        wrong = ", ".join(
            f"{one.case.framework}:{one.case.function.__name__} → {' '.join(one.codes) or '–'}"
            for one in group
            if not one.named
        )
        found, named = sum(o.found for o in group), sum(o.named for o in group)
        yield f"| {code} | {len(group)} | {found} | {named} | {wrong} |"


def summary(outcomes: list[Outcome]) -> Iterator[str]:
    faults = [one for one in outcomes if one.case.code is not None]
    sound = [one for one in outcomes if one.case.code is None]
    alarms = [one for one in sound if one.further]
    for name, group in (
        ("recall", [o.found for o in faults]),
        ("named", [o.named for o in faults]),
    ):
        if group:
            yield f"{name} {sum(group)}/{len(group)} = {sum(group) / len(group):.1%}"
    yield f"false alarms on {len(alarms)} of {len(sound)} sound functions"
    further = sum(bool(one.further) for one in faults)
    yield f"faults with a further code that is not listed as true of them: {further}"
    seconds = sorted(one.seconds for one in outcomes)
    if seconds:
        yield (
            f"processor seconds a function: median {seconds[len(seconds) // 2]:.2f}, "
            f"largest {seconds[-1]:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the recall table of identify.")
    parser.add_argument("--framework", choices=("numpy", "torch", "jax"))
    parser.add_argument("--only", default="", help="codes that start so, or 'sound'")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    outcomes = []
    for case in CASES:
        if options.framework not in (None, case.framework):
            continue
        if not (case.code or "sound").startswith(options.only):
            continue
        one = outcome(case)
        outcomes.append(one)
        if one.error:
            print(f"ERROR {case.identity}: {one.error}", flush=True)
        elif case.code is None and one.further:
            print(f"ALARM {case.identity}: {' '.join(one.further)}", flush=True)
        elif options.verbose and case.code and (one.further or not one.named):
            print(f"      {case.identity}: {' '.join(one.codes)}", flush=True)
    print("\n".join([*table(outcomes), "", *summary(outcomes)]))


if __name__ == "__main__":
    main()
