"""``# rootdk: ignore[RDK103] reason``: findings that the code's author has accepted."""

from __future__ import annotations

import linecache
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rootdk.records import AttentionSite, Finding, Frame, Source
from rootdk.records.source import shorten

__all__ = ["IgnoreComment", "apply_comments", "read_comments"]

_COMMENT = re.compile(r"#\s*rootdk:\s*ignore\s*(?:\[(?P<entries>[^\]]*)\])?:?\s*(?P<reason>.*)")
_LIBRARIES = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class IgnoreComment:
    """One ignore comment, and the lines of the statement that it stands in."""

    file: str
    line: int
    first: int
    last: int
    entries: tuple[str, ...]
    reason: str

    @property
    def location(self) -> str:
        """``file:line``, shortened as a frame's is."""
        return f"{shorten(self.file)}:{self.line}"

    def covers(self, frame: Frame) -> bool:
        """Tell whether a frame's line is one of the statement's."""
        return frame.file == self.file and self.first <= frame.line <= self.last


def read_comments(file: str) -> tuple[IgnoreComment, ...]:
    """Return the ignore comments of a Python file; none where it cannot be read."""
    lines = linecache.getlines(file)
    if not any("rootdk:" in line for line in lines):
        return ()
    try:
        return tuple(_comments(file, lines))
    except (tokenize.TokenError, SyntaxError):
        return ()


def apply_comments(
    findings: Iterable[Finding],
    sites: Iterable[AttentionSite],
    *,
    meant: Callable[[str], Collection[str]],
    judged: Collection[str],
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Drop what the comments ignore, and return the rest with remarks.

    A comment counts when it stands in the statement of the guilty line: the innermost frame
    of a finding's source or of a related place, or the innermost one outside of installed
    packages. What a comment dropped is counted; a comment that ignores nothing, has no code,
    or gives no reason, is remarked upon.

    Parameters
    ----------
    findings, sites
        What the rules said, and the sites whose files are searched for comments.
    meant : callable
        The codes that an entry of a comment means: a code, its beginning, a name, a family.
    judged : collection of str
        The codes that were judged; a comment about none of them is not called useless.
    """
    found = tuple(findings)
    comments = [c for file in sorted(_files(found, sites)) for c in read_comments(file)]
    dropped: Counter[tuple[IgnoreComment, str]] = Counter()
    kept = []
    for finding in found:
        used = _ignoring(finding, comments, meant)
        dropped.update(used)
        if not used:
            kept.append(finding)
    return tuple(kept), tuple(_remarks(comments, dropped, meant, judged))


def _comments(file: str, lines: list[str]) -> Iterator[IgnoreComment]:
    first: int | None = None
    waiting: list[tuple[int, re.Match[str]]] = []
    outside = {tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT}
    for token in tokenize.generate_tokens(iter(lines).__next__):
        if first is None and token.type not in outside:
            first = token.start[0]
        if token.type == tokenize.COMMENT and (match := _COMMENT.match(token.string)):
            waiting.append((token.start[0], match))
        if token.type in (tokenize.NEWLINE, tokenize.ENDMARKER) or (
            token.type == tokenize.NL and first is None
        ):
            for line, match in waiting:
                entries = (match["entries"] or "").split(",")
                yield IgnoreComment(
                    file=file,
                    line=line,
                    first=first or line,
                    last=token.start[0],
                    entries=tuple(entry.strip() for entry in entries if entry.strip()),
                    reason=match["reason"].strip(),
                )
            first, waiting = None, []


def _files(findings: Iterable[Finding], sites: Iterable[AttentionSite]) -> set[str]:
    sources: list[Source | None] = []
    for finding in findings:
        sources += [finding.source, *finding.related]
    for site in sites:
        sources += [site.source, site.product_source, *(f.source for f in site.factors)]
    return {frame.file for source in sources if source for frame in source.frames}


def _guilty(source: Source | None) -> set[Frame]:
    if source is None or not source.frames:
        return set()
    own = (f for f in source.frames if not _LIBRARIES & set(Path(f.file).parts))
    return {source.frames[0], next(own, source.frames[0])}


def _ignoring(
    finding: Finding,
    comments: Iterable[IgnoreComment],
    meant: Callable[[str], Collection[str]],
) -> list[tuple[IgnoreComment, str]]:
    frames = {f for source in (finding.source, *finding.related) for f in _guilty(source)}
    return [
        (comment, entry)
        for comment in comments
        for entry in comment.entries
        if finding.code in meant(entry) and any(map(comment.covers, frames))
    ]


def _remarks(
    comments: Iterable[IgnoreComment],
    dropped: Counter[tuple[IgnoreComment, str]],
    meant: Callable[[str], Collection[str]],
    judged: Collection[str],
) -> Iterator[str]:
    for comment in comments:
        if not comment.entries:
            yield f"{comment.location}: the ignore comment names no code, so it ignores nothing"
        for entry in comment.entries:
            count, codes = dropped[comment, entry], set(meant(entry))
            if count:
                reason = f": {comment.reason}" if comment.reason else ", without a reason"
                plural = "" if count == 1 else "s"
                yield f"{comment.location}: {count} finding{plural} of {entry} ignored{reason}"
            elif not codes:
                yield f"{comment.location}: ignore[{entry}] ignores nothing: there is no such rule"
            elif codes & set(judged):
                yield f"{comment.location}: ignore[{entry}] ignores nothing"
