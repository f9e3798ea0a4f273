"""Prints how many rows an archive in Parquet has, how many different records they are, and the sum
of their values.

Arguments: folder. It is sent to a pod that has the image of pipelines.
"""

import sys

import pyarrow.dataset as dataset


def main(folder: str) -> None:
    table = dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    places = zip(
        *(table[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True
    )
    total = sum(int(value) for value in table["value"].to_pylist())
    print(table.num_rows, len(set(places)), total)


if __name__ == "__main__":
    main(sys.argv[1])
