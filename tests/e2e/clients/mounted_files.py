"""Prints every file that is mounted into a broker's pod, each on one line with its path."""

import pathlib

for root in ("/etc/barnabas", "/etc/barnabas-tls", "/var/run/secrets"):
    for path in sorted(pathlib.Path(root).rglob("*")):
        if path.is_file():
            print(path, path.read_text(errors="replace").replace("\n", " "))
