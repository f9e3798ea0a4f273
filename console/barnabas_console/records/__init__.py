"""Records of topics: read by place and time, sought, followed, decoded, masked, written again.

Not here: HTTP (`barnabas_console.api.records`).
"""
