"""Full screens on a terminal that change while a person looks at them."""
