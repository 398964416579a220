"""``python -m aiocann``."""

import sys

from aiocann.cli import main

if __name__ == "__main__":
    sys.exit(main())
