"""Card backends: what sysfs says of the cards of a machine."""
