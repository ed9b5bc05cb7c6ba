# SPDX-License-Identifier: Apache-2.0
"""The command `xpuprof`, also as `python -m xpuprof`."""

import _signal  # type: ignore[import-not-found]  # `signal` imports others first

# An interrupt during the imports below ends the process without a traceback, like any other
# program; `ends.guarded` catches it once there is something to clean up.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def main() -> None:
    """Entry point; does not return."""
    from xpuprof.cli import main as command

    command()


if __name__ == "__main__":
    main()
