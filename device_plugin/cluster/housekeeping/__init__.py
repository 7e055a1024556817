"""What is done though nobody asks."""
