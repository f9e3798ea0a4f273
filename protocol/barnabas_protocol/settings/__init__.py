"""Settings of every part: a row each, how values are read, and how they are shown to people.

Client, broker, operator, pipelines and command line have settings of their own and share this
engine (decision 0028). It is below all of them, and as pure as the rest of the package.
"""
