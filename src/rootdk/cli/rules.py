"""``rootdk rules``: every rule of this version."""

from __future__ import annotations

import json

import typer

from rootdk._lib.errors import ArgumentError
from rootdk.cli import _options as given

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rules")(list_rules)


def list_rules(format: given.Format = None) -> None:  # noqa: A002 - the option's name
    """List the rules of this version, and the codes that are reserved."""
    from rootdk import rules

    rows = [
        {"code": rule.code, "name": rule.name, "family": rule.family, "summary": rule.page.summary}
        for rule in rules.all_rules()
    ]
    reserved = dict(rules.RESERVED)
    if format == "json":
        typer.echo(json.dumps({"rules": rows, "reserved": reserved}, indent=2, ensure_ascii=False))
    elif format in (None, "text"):
        typer.echo(_table(rows, reserved), nl=False)
    else:
        raise ArgumentError.unexpected("--format", format, "one of json, text")


def _table(rows: list[dict[str, str]], reserved: dict[str, str]) -> str:
    import textwrap

    lines: list[str] = []
    family = ""
    for row in rows:
        if row["family"] != family:
            family = row["family"]
            lines += ["", family] if lines else [family]
        head = f"  {row['code']}  {row['name']:<28}"
        lines += textwrap.wrap(head + row["summary"], 100, subsequent_indent=" " * len(head))
    if reserved:
        names = ", ".join(f"{code} {name}" for code, name in reserved.items())
        lines += ["", "reserved, not judged by this version"]
        lines += textwrap.wrap(names, 100, initial_indent="  ", subsequent_indent="  ")
    return "\n".join([*lines, "", "rootdk explain CODE shows a rule's page."]) + "\n"
