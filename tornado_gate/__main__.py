"""Entry point of ``python -m tornado_gate``."""

from tornado_gate.cli import main

if __name__ == "__main__":
    main()
