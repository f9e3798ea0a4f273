"""Prints how many rows an archive has, how many different records they are, and the sum
of their values.

Arguments: folder. It is sent to a pod that has the image of pipelines.
"""

import sys

from deltalake import DeltaTable


def main(folder: str) -> None:
    table = DeltaTable(folder).to_pyarrow_table()
    places = zip(
        *(table[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True
    )
    total = sum(int(value) for value in table["value"].to_pylist())
    print(table.num_rows, len(set(places)), total)


if __name__ == "__main__":
    main(sys.argv[1])
