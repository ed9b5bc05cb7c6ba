# SPDX-License-Identifier: Apache-2.0
"""The command `xpuprof`, also as `python -m xpuprof`."""

import signal
from typing import NoReturn

# An interrupt during the imports below ends the process without a traceback, like any other
# program; `ends.prepare` catches it once there is something to clean up.
if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> NoReturn:
    """Entry point."""
    from xpuprof.cli import main as command

    command()


if __name__ == "__main__":
    main()
