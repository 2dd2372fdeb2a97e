"""The options of ``check``, in one keyword that no model uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rootdk._lib.errors import ArgumentError
from rootdk.check.expectations import Expectation, parse_expectations
from rootdk.check.settings import Settings, code_list, find_pyproject, one_of, read_settings

__all__ = ["CheckOptions"]

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """How to check, and what is already known of the model.

    Attributes
    ----------
    expect : mapping
        A glob of sites to the scale they should have: ``{"blocks.*.attn": "1/sqrt(hidden)"}``.
        See :class:`~rootdk.check.Expectation` for what else a site can be expected to have.
    state : str
        ``init`` or ``trained``; ``auto`` reads it off the norms.
    select, ignore : sequence of str
        Rules to run, and rules to leave out, by code, beginning of a code, or name.
    seed : int or None
        Seeds the pass and the choice of rows; the caller's random state is put back.
    rows : int
        How many query rows of each site are recomputed to verify it.
    target : str or None
        What to call the model; None for the name of its class.
    settings : Settings, path, bool or None
        The ``[tool.rootdk]`` of a pyproject.toml: read already, or the file, or True for the
        nearest one at or above the working directory. None and False read nothing.
    progress : callable or None
        Told the name of each site as it is reached.
    second_inputs : callable or None
        Makes inputs of another length; asked for once when one number fits several laws.
    """

    expect: Mapping[str, Any] = field(default_factory=dict)
    state: str = "auto"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    seed: int | None = 0
    rows: int = 32
    target: str | None = None
    settings: Settings | Path | str | bool | None = None
    progress: Callable[[str], None] | None = None
    second_inputs: Callable[[], Inputs] | None = None

    def __post_init__(self) -> None:
        """Refuse what means nothing, and bring what means something to one form."""
        object.__setattr__(self, "expect", parse_expectations(self.expect))
        object.__setattr__(self, "select", code_list(self.select, "select"))
        object.__setattr__(self, "ignore", code_list(self.ignore, "ignore"))
        one_of(self.state, ("auto", "init", "trained"), "state")
        if not _is_whole(self.rows) or self.rows < 1:
            raise ArgumentError.unexpected("rows", self.rows, "a whole number above 0")
        if self.seed is not None and not (_is_whole(self.seed) and 0 <= self.seed < 2**63):
            expected = "a whole number from 0 to 2**63 - 1, or None"
            raise ArgumentError.unexpected("seed", self.seed, expected)

    @classmethod
    def of(cls, options: CheckOptions | Mapping[str, Any] | None) -> CheckOptions:
        """Return options from what ``check(rootdk=...)`` was given."""
        if options is None:
            return cls()
        if isinstance(options, cls):
            return options
        if not isinstance(options, Mapping):
            raise ArgumentError.unexpected("rootdk", options, "a CheckOptions or a mapping")
        valid = [f.name for f in fields(cls)]
        unknown = [str(name) for name in options if name not in valid]
        if unknown:
            raise ArgumentError(
                f"rootdk has the option {', '.join(unknown)}; expected only {', '.join(valid)}"
            )
        return cls(**options)

    def merged(self) -> CheckOptions:
        """Return these options over the project's settings.

        Expectations are joined, and these come later, so they win; a selection replaces the
        project's; what is ignored adds up; a state that was given wins.
        """
        settings = self._project_settings()
        if settings is None:
            return self
        known: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        expect: dict[str, Expectation] = {**settings.expect, **self.expect}
        return CheckOptions(
            **known
            | {
                "expect": expect,
                "select": self.select or settings.select,
                "ignore": (*settings.ignore, *self.ignore),
                "state": settings.state if self.state == "auto" else self.state,
                "settings": None,
            }
        )

    def _project_settings(self) -> Settings | None:
        match self.settings:
            case None | False:
                return None
            case Settings():
                return self.settings
            case True:
                found = find_pyproject(Path.cwd())
                return None if found is None else read_settings(found)
            case Path() | str():
                return read_settings(Path(self.settings))
        raise ArgumentError.unexpected("settings", self.settings, "a path, True or None")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
