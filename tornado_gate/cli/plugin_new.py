"""tornado-gate plugins new: write the distribution of a new plugin from the files below `templates/`.

The templates are the distribution of a plugin named ``acme``. The tests install and run the result of this command.
"""

from __future__ import annotations

import re
import shlex
import sys
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tornado_gate.cli.common import exit_with_message, parse_folder

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PREFIX: Final = "tornado-gate-"
LONGEST_NAME: Final = 40

_COMMON: Final = "common"
_SUMMARIES: Final = {
    "provider": "a provider with a wire format of its own",
    "openai_compatible": "a provider for an OpenAI-compatible API",
    "format": "a wire format for callers",
    "wrapper": "a guard, which is a kind of wrapper",
}
"""Summaries by variant, which is the name of a folder of templates."""


@click.command(short_help="Write a new plugin: complete, installable, tested.")
@click.argument("name")
@click.option("--provider", is_flag=True, help="A provider: calls a vendor's API. This is the default.")
@click.option("--format", "wire_format", is_flag=True, help="A wire format: serves callers on its own routes.")
@click.option(
    "--wrapper", is_flag=True, help="A wrapper: a guard that reviews requests and answers of every wire format."
)
@click.option(
    "--openai-compatible", is_flag=True, help="A provider whose API is like OpenAI's; the plugin states only facts."
)
@click.option(
    "--into",
    metavar="DIR",
    default=".",
    show_default="the current folder",
    callback=parse_folder,
    help="The folder in which the plugin's folder is made.",
)
def new(name: str, provider: bool, wire_format: bool, wrapper: bool, openai_compatible: bool, into: Path) -> None:
    """Write the folder tornado-gate-NAME with a plugin that works: module, tests, packaging, README, configuration, CI.

    NAME is the plugin's name in the configuration: letters, digits and hyphens, such as `acme` or `my-vendor`. The plugin is
    ready to be installed; then replace the example's facts by your own. Examples:

    \b
      tornado-gate plugins new acme                       a provider with a wire format of its own
      tornado-gate plugins new acme --openai-compatible   a provider in less than 15 lines
      tornado-gate plugins new plain --format             a wire format
      tornado-gate plugins new redact --wrapper           a guard: replaces texts in requests and answers

    An OpenAI-compatible API without differences needs no plugin, only an entry under `providers` with `plugin: openai` and its
    `base_url`.
    """
    variant = _choose_variant(provider, wire_format, wrapper, openai_compatible)
    plugin = _check_name(name)
    folder = into / f"{_PREFIX}{plugin}"
    files = make_files(variant, plugin)
    try:
        _check_folder(folder)
        _write_files(folder, files)
    except OSError as error:
        exit_with_message(
            f"cannot write {error.filename or folder}: {error.strerror}; choose another folder with --into"
        )
    click.echo(_describe_result(variant, plugin, folder, files["gate.yaml"]))


def _choose_variant(provider: bool, wire_format: bool, wrapper: bool, openai_compatible: bool) -> str:
    kinds = {"--provider": provider, "--format": wire_format, "--wrapper": wrapper}
    options = [option for option, is_given in kinds.items() if is_given]
    if len(options) > 1:
        raise click.UsageError(f"{' and '.join(options)} cannot be combined; a plugin is of one kind.")
    kind = options[0].removeprefix("--") if options else "provider"
    if openai_compatible and kind != "provider":
        raise click.UsageError(f"--openai-compatible is for providers; leave out --{kind}.")
    return "openai_compatible" if openai_compatible else kind


def _check_name(text: str) -> str:
    """Return the plugin's name: `text`, normalised like names of distributions (PEP 503). Exits if it cannot be used."""
    name = re.sub(r"[-_.]+", "-", text).lower().removeprefix(_PREFIX)
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise click.BadParameter(
            f"'{text[:80]}' cannot be the name of a plugin; it must begin with a letter and consist of letters, digits and "
            f"hyphens, at most {LONGEST_NAME} characters, for example my-vendor",
            param_hint="NAME",
        )
    for entry_point in metadata.entry_points(group="tornado_gate"):
        distribution = entry_point.dist.name if entry_point.dist else ""
        if name == entry_point.name or re.sub(r"[-_.]+", "-", distribution).lower() == f"{_PREFIX}{name}":
            exit_with_message(
                f"a plugin named '{name}' is installed already, from {distribution}; "
                f"choose another name, or run: pip uninstall {distribution}"
            )
    return name


def _check_folder(folder: Path) -> None:
    """Exit if the folder must not be written to."""
    if folder.exists() and not folder.is_dir():
        exit_with_message(f"{folder} is a file; choose another name, or another folder with --into")
    if folder.is_dir() and any(folder.iterdir()):
        exit_with_message(
            f"the folder {folder} is not empty; remove it, choose another name, or another folder with --into"
        )


def make_replacements(plugin: str) -> dict[str, str]:
    """Return the replacements of the names in the templates, the longest first."""
    module = plugin.replace("-", "_")
    return {
        "tornado_gate_acme": f"tornado_gate_{module}",
        "test_acme": f"test_{module}",
        "ACME": module.upper(),
        "Acme": "".join(word.capitalize() for word in plugin.split("-")),
        "acme": plugin,
    }


def _rename_texts(text: str, replacements: dict[str, str]) -> str:
    return re.sub("|".join(replacements), lambda match: replacements[match[0]], text)


def make_files(variant: str, plugin: str) -> dict[str, str]:
    """Return the text of each file of a distribution, by path."""
    replacements = make_replacements(plugin)
    templates = resources.files("tornado_gate.cli") / "templates"
    return {
        _rename_texts(path, replacements): _rename_texts(text, replacements)
        for part in (_COMMON, variant)
        for path, text in _read_files(templates / part, "")
    }


def _write_files(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _read_files(folder: Traversable, path: str) -> list[tuple[str, str]]:
    """Return (path, text) of each file. ``dot_`` at the start of a name stands for the dot, which packaging would omit."""
    files: list[tuple[str, str]] = []
    for entry in folder.iterdir():
        if entry.name.startswith((".", "__")):
            continue
        below = path + re.sub("^dot_", ".", entry.name)
        if entry.is_dir():
            files += _read_files(entry, f"{below}/")
        else:
            files.append((below, entry.read_text(encoding="utf-8")))
    return files


def _describe_result(variant: str, plugin: str, folder: Path, conf: str) -> str:
    """Describe the written files, the commands to run next, and the lines for conf."""
    from tornado_gate.server.process.command_name import get_command_name

    module = plugin.replace("-", "_")
    command = get_command_name()
    if command != "tornado-gate":
        command = shlex.quote(sys.executable) + " -m tornado_gate"
    python = "" if command == "tornado-gate" else f"{shlex.quote(sys.executable)} -m "
    variables = [f"export {name}=…" for name in re.findall(r"\$\{(\w+)\}", conf)]
    serving = [*variables, f"{command} serve --conf gate.yaml"]
    return "\n".join(
        [
            f"{folder}: {_SUMMARIES[variant]}",
            f"  tornado_gate_{module}.py: the plugin; begin here",
            f"  tornado_gate_{module}_conformance.py: its contract, for tests/ and for plugins check",
            "  README.md, setup.py, gate.yaml (a configuration that runs), .github (CI)",
            "",
            "Install and test it:",
            f"  cd {shlex.quote(str(folder))}",
            f"  {python}pip install -e '.[test]'",
            f"  {python}pytest",
            f"  {command} plugins check {plugin}",
            "",
            "Serve it alone:",
            *(f"  {line}" for line in serving),
            "",
            "Or add to your configuration, under the sections that it has:",
            *(f"  {line}" for line in conf.splitlines()),
        ]
    )
