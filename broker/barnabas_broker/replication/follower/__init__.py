"""What a follower does: it fetches from leaders and makes its logs equal to theirs."""
