"""What the watches of pods and nodes show, as it is known now."""
