"""The tests of this folder run on both databases, also in `make test`."""

from tests.support import databases

dialect = databases.each_dialect
