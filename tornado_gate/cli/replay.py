"""tornado-gate replay"""

from __future__ import annotations

from pathlib import Path

import click

from tornado_gate.cli.common import conf_option, data_dir_option, load


@click.command(short_help="Replay a recorded request, and show what is different now.")
@click.argument("tape")
@conf_option
@data_dir_option
@click.option("--times", "with_times", is_flag=True, help="The upstream waits between its chunks as it did then.")
def replay(tape: str, conf_file: Path | None, data_dir: Path | None, *, with_times: bool) -> None:
    """Send the request of TAPE, a file or the ID of a tape, through a temporary gateway of the installed code.

    An upstream on this machine plays the recorded bytes. The request that it gets, and the response to the caller, are compared
    with the tape. Nothing is sent to a vendor. The provider entries are those of the tape; guards and wrappers are off.

    Exit code 0 if both are equal, 1 if one is different, 2 if the tape cannot be replayed.

    \b
      tornado-gate replay weather.jsonl
      tornado-gate replay weather.jsonl --times
    """
    from tornado_gate.tapes.tape import TapeError
    from tornado_gate.testing.tape_replay import replay_tape

    try:
        result = replay_tape(_find_tape(tape, conf_file, data_dir), with_times=with_times)
    except TapeError as error:
        click.echo(f"tornado-gate: {error}", err=True)
        raise SystemExit(2) from None
    for difference in result.differences:
        click.echo(difference)
    if result.differences:
        raise SystemExit(1)
    click.echo(f"Equal: {len(result.received)} requests to the upstream, status {result.answer.status}.")


def _find_tape(tape: str, conf_file: Path | None, data_dir: Path | None) -> Path:
    """Return the file of a tape. Only an ID needs the configuration. Raises TapeError."""
    from tornado_gate.cli.tapes import describe_unknown
    from tornado_gate.config.tapes import TapesConfig
    from tornado_gate.tapes.store import TapeStore
    from tornado_gate.tapes.tape import TapeError

    if not tape.startswith("tape_") or Path(tape).exists():
        return Path(tape)
    _, config = load(conf_file, data_dir)
    path = TapeStore(config.server.data_dir, (config.tapes or TapesConfig()).keep_seconds).find_path(tape)
    if path is None:
        raise TapeError(describe_unknown(tape))
    return path
