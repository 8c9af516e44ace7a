"""What became of a day, and what somebody should look at: read once, judged once, told by every command alike."""
