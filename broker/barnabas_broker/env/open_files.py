"""How many files and connections the process may have open, as many as the system lets it.

A broker holds a descriptor for each partition that is written to and for each connection. The usual
soft limit of 1024 is there for programs that use select(2); those that know better raise it to the
hard one. Running out is no small matter: a segment that cannot be opened is a disk that fails.

Source: getrlimit(2).
"""

import resource

# Where the hard limit is no number that may be set (macOS), these are tried.
_USUAL_LIMITS = (1_048_576, 65_536, 10_240)


def allow_many_open_files() -> int:
    """Raise the soft limit as far as it goes; returns the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, *_USUAL_LIMITS):
        if soft == resource.RLIM_INFINITY or (0 <= wanted <= soft):
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            continue
        break
    return open_files_limit()


def open_files_limit() -> int:
    """The soft limit; a very large number if there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 - 1 if soft == resource.RLIM_INFINITY else soft
