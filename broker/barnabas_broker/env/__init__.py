"""The seam to clock, randomness, disk and network: protocols, and the real ones behind them.

Everything above takes these as arguments, so that a test or a simulation can put its own in. No
other package reads a clock, draws a random number, or opens a file or a socket by itself.
"""
