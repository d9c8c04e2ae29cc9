"""``python -m npuprof``: the command line, also where its script is not on PATH."""

import sys

from npuprof.cli import main

sys.exit(main())
