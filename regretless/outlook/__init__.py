"""What a user is told beside the best setting: how much may be left, and when to stop."""
