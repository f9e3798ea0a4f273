"""The process of the operator."""

import sys

from barnabas_operator.main import main

if __name__ == "__main__":
    sys.exit(main())
