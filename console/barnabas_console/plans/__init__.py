"""Changes as plans: what would be, the yes of a person, what came of it (CON-120).

A *change* is one thing that somebody wants. It is drawn up as a *draft* from what the cluster is at
that moment; a kept draft is a *plan*, and is carried out only while the cluster still is that.
"""
