"""What a cluster holds, as plain data that every surface shows alike: command line and console.

A module a notion (CON-102, CON-134); what needs several requests makes them at once and leaves
out what a broker does not serve. Keys are `snake_case`: what `barnabas ... -o json` writes.
"""
