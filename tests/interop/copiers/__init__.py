"""Programs that copy a topic in transactions, each with another client.

Usage: COPIER BOOTSTRAP GROUP INPUT OUTPUT TRANSACTIONAL_ID. Each record goes to the partition of
its number in the output, in a transaction with the offset of its group. They begin again from the
offsets that are committed after an abort, and end when their standard input is closed. What they
cannot go on from ends them with an exit status other than 0, as it would a service.
"""
