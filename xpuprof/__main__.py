"""python -m xpuprof"""

from xpuprof.cli import main

main()
