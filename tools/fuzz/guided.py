# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of one reader, with atheris (libFuzzer): needs `pip install atheris`.

    tools/fuzz/guided.py TARGET [--seconds 60] [--keep FOLDER]

Begins with the small real files of `importers.py`, whose judgement of a reader it shares: what it
raises beside our errors, more than SLOWEST seconds or 2 GiB are findings, kept in FOLDER. What it
learnt stays in FOLDER/corpus, so a later call continues there.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from types import FunctionType

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))
import importers

from tests.support import traces

READERS = ("xpuprof.formats", "xpuprof.inputs", "xpuprof.selection", "xpuprof.trace")


def instrument() -> None:
    """Instruments the functions of the readers' loaded modules. (atheris.instrument_imports sees
    nothing of a package in an editable installation.)"""
    for name, module in list(sys.modules.items()):
        if name.startswith(READERS):
            for owner in (module, *(v for v in vars(module).values() if isinstance(v, type))):
                for key, value in list(vars(owner).items()):
                    if isinstance(value, FunctionType) and value.__module__ == name:
                        setattr(owner, key, atheris.instrument_func(value))


def main() -> None:
    """Runs libFuzzer, which ends the process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="guided-", dir=importers.FAST))
    streams = traces.write_run(work / "streams", traces.events(20), traces.cpu(21))
    known = importers.targets(work, streams)
    if arguments.target not in known:
        parser.error(f"no target {arguments.target}; choose from {', '.join(known)}")
    target = known[arguments.target]
    corpus = arguments.keep / "corpus" / arguments.target
    corpus.mkdir(parents=True, exist_ok=True)
    path = work / f"input{target.suffix}"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        importers.read_one(target, path, work, random.Random(1))

    for number, data in enumerate(target.inputs):
        (corpus / f"first-{number}").write_bytes(data)
        one(data)  # imports what the reader imports on use
    instrument()
    limits = [f"-max_total_time={arguments.seconds}", f"-timeout={importers.SLOWEST}"]
    limits += ["-rss_limit_mb=2048", f"-artifact_prefix={arguments.keep}/", "-max_len=65536"]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
