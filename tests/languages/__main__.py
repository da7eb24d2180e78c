"""``python -m tests.languages`` (`make messages`) brings the catalogues of the console up to date and compiles them."""

from __future__ import annotations

from tests.languages.catalogue import (
    list_languages,
    locate_catalogue,
    locate_script_messages,
    make_compiled,
    make_script_messages,
    make_updated,
    write_catalogue,
)

for language in list_languages():
    catalogue = make_updated(language)
    path = locate_catalogue(language)
    path.write_bytes(write_catalogue(catalogue))
    path.with_suffix(".mo").write_bytes(make_compiled(catalogue))
    locate_script_messages(language).write_bytes(make_script_messages(catalogue))
    open_messages = [message for message in catalogue if message.id and (not message.string or message.fuzzy)]
    print(f"{language}: {len(catalogue)} messages, {len(open_messages)} without a translation")
