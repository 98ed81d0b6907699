"""What is trained on when, and who plays whom."""
